-- INSERT, UPDATE, DELETE, UPSERT and RETURNING, with every constraint.
CREATE TABLE kind(name TEXT PRIMARY KEY COLLATE NOCASE, rank INTEGER UNIQUE, note TEXT DEFAULT 'none') WITHOUT ROWID
CREATE TABLE item(id INTEGER PRIMARY KEY, kind TEXT REFERENCES kind ON UPDATE CASCADE ON DELETE SET NULL, size INTEGER NOT NULL DEFAULT 1 CHECK (size BETWEEN 0 AND 99), price NUMERIC, label TEXT AS (kind || ':' || size), UNIQUE (kind, size))
CREATE INDEX item_by_label ON item(label)
CREATE TABLE part(item INTEGER REFERENCES item(id) ON DELETE CASCADE ON UPDATE CASCADE, number INTEGER, name TEXT, PRIMARY KEY (item, number)) WITHOUT ROWID
INSERT INTO kind(name, rank) VALUES ('tea', 1), ('jam', 2), ('rye', 3), ('oil', NULL)
INSERT INTO item(id, kind, size, price) VALUES (1, 'tea', 5, 1.5), (2, 'jam', 5, '2'), (3, 'TEA', 6, 'x'), (4, NULL, 7, NULL)
INSERT INTO part VALUES (1, 1, 'lid'), (1, 2, 'tin'), (2, 1, 'jar'), (3, 1, 'bag')
«INSERT¦INSERT OR IGNORE¦INSERT OR REPLACE¦REPLACE¦INSERT OR FAIL» INTO kind(name, rank) VALUES «('Tea', 9)¦('new', 2)¦('a', NULL), ('b', NULL)¦('x', 5), ('y', 5)¦(NULL, 4)» RETURNING name, rank, note
«INSERT¦INSERT OR IGNORE» INTO item(id, kind, size) VALUES «(10, 'tea', 50)¦(11, 'nope', 1)¦(1, 'rye', 1)¦(12, 'rye', NULL)¦(13, 'rye', 100)¦(14, NULL, 8)¦('15', 'oil', '9')¦(16.0, 'oil', 9.5)¦('x', 'oil', 3)» RETURNING *
INSERT INTO item(id, kind, size) VALUES «(1, 'rye', 20)¦(50, 'jam', 5)¦(51, 'jam', 21)¦(2, 'jam', 6)» ON CONFLICT«(id)¦(kind, size)¦» DO «NOTHING¦UPDATE SET size = excluded.size + 1, price = item.price¦UPDATE SET price = 7 WHERE excluded.size > 5» RETURNING id, kind, size, price, label
INSERT INTO kind VALUES «('tea', 2, 'z')¦('ink', 8, 'z')» ON CONFLICT(name) DO «NOTHING¦UPDATE SET note = note || excluded.note» ON CONFLICT(rank) DO UPDATE SET note = 'rank' RETURNING *
UPDATE item SET size = «size + 1¦0¦100¦NULL¦'9'¦(SELECT max(rank) FROM kind)» WHERE id = «1¦2¦99» RETURNING id, size, label
UPDATE «¦OR IGNORE ¦OR REPLACE »kind SET «rank = 3¦name = 'JAM'¦note = upper(name), rank = rank¦(rank, note) = (6, 'six')¦(note, rank) = (SELECT 'q', 11)» WHERE name = «'tea'¦'jam'¦'nope'» RETURNING *
UPDATE item SET «id = id + 100¦kind = 'oil'¦price = price * 2, size = size¦size = size - 1, kind = kind» WHERE id «= 2¦= 102¦IN (3, 103)» RETURNING id, label
UPDATE item SET price = k.rank FROM kind AS k WHERE k.name = item.kind AND k.rank «> 1¦= 11¦IS NOT NULL» RETURNING id, price
WITH big AS (SELECT id FROM item WHERE size > «5¦90») UPDATE item SET price = -1 WHERE id IN (SELECT id FROM big) RETURNING id
DELETE FROM «part¦item¦kind» WHERE rowid = -1
DELETE FROM part WHERE «name = 'lid'¦item = 102¦(item, number) = (2, 1)¦number > 5» RETURNING *
INSERT INTO part SELECT «id, 9, label FROM item WHERE id < 5¦item, number + 20, name FROM part¦1, 99, max(name) FROM part¦id, 1, NULL FROM item» «¦RETURNING item, name»
INSERT INTO part(item, number) WITH n(v) AS (VALUES (40), (41)) SELECT 1, v FROM n WHERE «true¦v > 40» ON CONFLICT DO NOTHING RETURNING number
DELETE FROM kind WHERE name = «'tea'¦'oil'¦'zz'» RETURNING name
DELETE FROM item WHERE «id = 1¦size > 90¦price < 0¦id IN (SELECT item FROM part)» RETURNING id
INSERT INTO «nope¦item(nope)¦item(id, id)¦item(id)¦part¦kind(name, rank)» VALUES «(1, 2)¦(1)¦(1, 2, 3, 4)»
UPDATE «nope¦item¦kind» SET «nope = 1¦rank = nope¦label = 'x'¦size = (SELECT 1, 2)¦(rank, note) = (1)» WHERE 0
DELETE FROM «nope¦item WHERE nope = 1¦kind WHERE name = ¦part RETURNING nope»
INSERT INTO kind DEFAULT VALUES
INSERT INTO item(id, kind) VALUES «(201, NULL)¦(202, 'jam')» RETURNING size, price, label
CREATE TABLE n(id INTEGER PRIMARY KEY, a UNIQUE, b NOT NULL DEFAULT 7 CHECK (b < 50))
INSERT INTO n VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)
INSERT «OR IGNORE¦OR REPLACE¦OR ABORT¦» INTO n VALUES «(1, 9, 9)¦(1, 2, 9)¦(9, 2, NULL)» ON CONFLICT(id) DO «UPDATE SET a = 2¦UPDATE SET b = NULL¦UPDATE SET b = 99¦UPDATE SET b = b + 1¦NOTHING» RETURNING *
UPDATE «OR IGNORE ¦OR REPLACE ¦»n SET «b = NULL¦a = 3¦b = 60, a = 2¦id = 3» WHERE id «= 1¦IN (2, 3)¦> 3» RETURNING *
INSERT «OR IGNORE¦OR REPLACE¦» INTO n VALUES (2, 1, 5), (3, 3, 5), (30, 30, 5) «ON CONFLICT(a) DO UPDATE SET b = 20 ON CONFLICT(id) DO UPDATE SET b = 30¦ON CONFLICT(id) DO NOTHING ON CONFLICT DO UPDATE SET b = 31 WHERE b < 0¦ON CONFLICT DO NOTHING»
