-- Aggregates, groups and windows.
CREATE TABLE sale(id INTEGER PRIMARY KEY, shop TEXT, item TEXT COLLATE NOCASE, amount INTEGER, price REAL, day TEXT)
CREATE INDEX sale_by_shop ON sale(shop, amount)
INSERT INTO sale VALUES (1, 'n', 'tea', 3, 1.5, '2024-01-31'), (2, 'n', 'Tea', 5, 1.25, '2024-02-29'), (3, 's', 'jam', NULL, 4.0, '2024-03-01'), (4, 's', 'JAM', 2, NULL, '2024-03-15'), (5, NULL, 'rye', 7, 2.5, NULL), (6, 'n', NULL, 1, 0.5, '2023-12-31'), (7, 'w', 'tea', 9223372036854775807, 1e10, '2024-01-01'), (8, 'w', 'rye', -4, -2.5, '2025-06-30')
SELECT «count(*)¦count(amount)¦count(DISTINCT item)¦min(price)¦max(day)¦group_concat(item ORDER BY id)¦string_agg(shop, ';' ORDER BY id)¦max(amount), min(item)¦total(price)» FROM sale «¦WHERE shop = 'n'¦WHERE shop IS NULL¦WHERE amount > 2¦WHERE 0¦WHERE shop IN ('s', 'n')»
SELECT «sum(amount)¦avg(price)¦sum(price)» FROM sale WHERE id «< 7¦= 3¦> 100¦IN (1, 2, 5)»
SELECT sum(amount) FROM sale WHERE «id > 5¦amount > 6¦id = 7»
SELECT «shop¦item¦amount > 2¦substr(day, 1, 4)¦price IS NULL», «count(*)¦min(id)¦max(price)¦count(DISTINCT day)¦group_concat(id ORDER BY id)¦total(price)» FROM sale GROUP BY 1 «¦HAVING count(*) > 1¦HAVING min(amount) > 1¦ORDER BY 2, 1¦ORDER BY 1 DESC LIMIT 2»
SELECT shop, item COLLATE BINARY, count(*) FROM sale «¦WHERE price > 1¦WHERE shop <> 'w'» GROUP BY shop, item COLLATE BINARY ORDER BY «1, 2¦3 DESC, 1, 2¦2 NULLS LAST, 1»
SELECT DISTINCT «shop¦item COLLATE BINARY¦length(item)¦typeof(amount)» FROM sale ORDER BY 1 «¦DESC¦LIMIT 2»
SELECT id, «row_number()¦rank()¦dense_rank()¦percent_rank()¦cume_dist()¦ntile(3)¦lag(id)¦lag(amount, 2, -1)¦lead(price)¦first_value(id)¦last_value(id)¦nth_value(id, 2)¦count(*)¦sum(id)¦min(price)¦max(item)¦group_concat(id)» OVER («ORDER BY id¦PARTITION BY shop ORDER BY id¦ORDER BY shop, id DESC¦PARTITION BY item ORDER BY price, id») FROM sale ORDER BY id
SELECT id, «sum(id)¦count(price)¦max(id)¦total(price)¦group_concat(id)» «¦FILTER (WHERE amount > 2) »OVER (ORDER BY id «ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING¦ROWS UNBOUNDED PRECEDING¦ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING¦RANGE BETWEEN 2 PRECEDING AND CURRENT ROW¦GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES¦ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW¦ROWS BETWEEN 3 FOLLOWING AND 4 FOLLOWING») FROM sale ORDER BY id
SELECT shop, sum(id) OVER w, count(*) OVER (w «ROWS 1 PRECEDING¦») FROM sale WINDOW w AS (PARTITION BY shop ORDER BY id) ORDER BY «1, 2¦2, 1»
SELECT * FROM (SELECT id, rank() OVER (PARTITION BY shop ORDER BY amount DESC) AS place FROM sale) WHERE place «= 1¦> 1¦<= 2» ORDER BY id
SELECT shop, max(count(*)) OVER () FROM sale GROUP BY shop ORDER BY 1
SELECT max(id), «shop¦item¦amount¦day» FROM sale «¦WHERE shop = 's'¦GROUP BY shop ORDER BY 1»
SELECT «strftime('%Y-%m', day)¦date(day, 'start of month')¦date(day, '+1 month')¦julianday(day) - julianday('2024-01-01')¦strftime('%w %j', day)¦unixepoch(day)¦date(day, '-1 day', 'weekday 0')» FROM sale ORDER BY id
