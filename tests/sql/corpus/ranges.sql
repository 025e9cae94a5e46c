-- Ranges, orders and limits on composite keys and indexes, rows with equal values, and STRICT types.
CREATE TABLE s(a INTEGER NOT NULL, b TEXT, c REAL, d ANY, e BLOB, PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID
CREATE TABLE r(a INT, b VARCHAR(9) COLLATE NOCASE, c DOUBLE, d, e BLOB)
CREATE INDEX s_cd ON s(c, d)
CREATE INDEX s_da ON s(d DESC, a)
CREATE UNIQUE INDEX r_abc ON r(a, b, c)
CREATE INDEX r_b ON r(b COLLATE BINARY, a)
CREATE INDEX r_dc ON r(d, c DESC)
INSERT INTO s VALUES (1, 'a', 1.5, 1, x'01'), (1, 'b', 1.5, '1', NULL), (1, 'B', NULL, x'31', x''), (2, 'a', -1, NULL, x'ff'), (2, 'é', 0, 2.5, x'01'), (3, '', 1e10, 'z', x'0102'), (-9223372036854775808, 'min', 2, 9223372036854775807, NULL), (9223372036854775807, 'max', 2, -1, NULL)
INSERT INTO r VALUES (1, 'a', 1.5, 1, x'01'), (1, 'B', 1.5, '1', NULL), (1, NULL, NULL, x'31', x''), (2, 'A ', -1, NULL, 'ff'), ('2', 'é', 0, 2.5, 1), (NULL, '', 1e10, 'z', x'0102'), (NULL, NULL, 2, 9223372036854775807, NULL), ('x', 'max', '2', -1, NULL), (1, 'b', 7, 1.0, NULL), (2.5, 5, 5, 5, 5)
SELECT a, b FROM «s¦r» WHERE a «=¦>¦<=¦IS¦<>» «1¦2.0¦'1'¦NULL¦9223372036854775807» ORDER BY «1, 2 COLLATE BINARY¦2 COLLATE BINARY DESC, 1»
SELECT a, b FROM «s¦r» WHERE a = 1 AND b «=¦>=¦<¦IN» «('a')¦('B')¦('')» ORDER BY 1, 2
SELECT a, c FROM «s¦r» WHERE c «BETWEEN 0 AND 2¦> 1¦IS NULL¦= 1.5¦IN (2, 1.5, '0')¦< '5'» AND d «> 0¦IS NOT NULL¦<> '1'» ORDER BY 1, 2
SELECT quote(d) FROM «s¦r» WHERE d «>=¦<¦=» «0¦1.5¦'1'¦x'31'¦'a'» ORDER BY 1
SELECT a, quote(d), c FROM «s¦r» ORDER BY «2, 1, 3¦1 DESC, 3, 2¦3, 2 DESC, 1» «LIMIT 3¦LIMIT 2 OFFSET 3¦LIMIT -1»
SELECT «min(a)¦max(a)¦lower(min(b))¦lower(max(b))¦min(c)¦max(d)¦count(e)¦count(DISTINCT c)» FROM «s¦r» «¦WHERE a = 1¦WHERE c > 0¦WHERE b >= 'a'¦WHERE d IS NOT NULL»
SELECT count(*) FROM s JOIN r ON «s.a = r.a¦s.b = r.b¦s.c = r.c¦s.d = r.d¦s.e = r.e¦s.a = r.c¦s.b = r.a¦s.d = r.b» «AND s.a > 0¦AND r.c IS NOT NULL¦»
SELECT s.a, s.b, r.a, r.b FROM s «JOIN¦LEFT JOIN» r ON (s.a, s.b) «=¦>¦<=» (r.a, r.b) ORDER BY 1, 2, 3, 4 COLLATE BINARY
SELECT a, b FROM s WHERE (a, b) «>¦>=¦<¦BETWEEN (1, 'a') AND» (2, 'a') ORDER BY 1, 2
SELECT a FROM s WHERE a IN (SELECT a FROM r «WHERE c > 0¦WHERE b = 'a'¦») AND b «<> 'a'¦> ''» ORDER BY 1
SELECT DISTINCT a FROM «s¦r» WHERE b «LIKE 'a%'¦GLOB 'a*'¦LIKE 'B'¦> 'A' COLLATE NOCASE¦= 'A' COLLATE NOCASE» ORDER BY 1
SELECT a, b, count(*) OVER (PARTITION BY «a¦c¦b COLLATE NOCASE» ORDER BY «b¦d, a») FROM s ORDER BY 1, 2
INSERT INTO s VALUES «(1, 'c', 'x', 1, NULL)¦(1.5, 'd', 1, 1, NULL)¦('7', 'e', '2', 1, NULL)¦(8, x'61', 1, 1, NULL)¦(9, 'f', 1, 1, 'x')¦(NULL, 'g', 1, 1, NULL)¦(10, NULL, 1, 1, NULL)¦(1, 'a', 1, 1, NULL)» RETURNING *
UPDATE s SET «a = a + 1¦b = b || 'x'¦c = NULL¦d = NULL¦e = 5¦c = '9'» WHERE «a = 3¦a = 9223372036854775807¦b = 'min'» RETURNING a, b, typeof(c)
UPDATE r SET «c = 1.5¦b = 'B'¦a = a» WHERE «d = 1¦b = 'a'¦a IS NULL» RETURNING a, b, c
