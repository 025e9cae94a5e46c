-- Changes of the schema on tables with rows, and what they refuse.
CREATE TABLE a(id INTEGER PRIMARY KEY, x TEXT, y INTEGER, z REAL DEFAULT 1.5)
INSERT INTO a(id, x, y) VALUES (1, 'p', 1), (2, 'q', 2), (3, NULL, NULL)
CREATE VIEW big AS SELECT x, y FROM a WHERE y > 1
CREATE «INDEX¦UNIQUE INDEX» «a_x¦a_xy¦a_y» ON a(«x¦x, y¦y DESC¦nope¦x COLLATE NOCASE»)
ALTER TABLE a ADD COLUMN «n1¦n2 INTEGER DEFAULT 7¦n3 TEXT DEFAULT 'é' NOT NULL¦n4 INTEGER NOT NULL¦n5 REAL DEFAULT '2'¦n6 DEFAULT NULL¦n7 BLOB DEFAULT x'61'¦n8 CHECK (n8 > 0) DEFAULT 0¦n9 INTEGER CHECK (n9 > 0) DEFAULT 3¦id¦na UNIQUE¦nb PRIMARY KEY¦nc DEFAULT (1 + 1)¦nd DEFAULT -5¦ne TEXT DEFAULT 1e2¦nf DEFAULT CURRENT_DATE¦ng TEXT COLLATE NOCASE DEFAULT 'k'»
SELECT * FROM a WHERE id «= 1¦> 1¦IS NOT NULL» ORDER BY id
SELECT «n2¦n3¦n5¦ne¦ng¦typeof(n5)¦typeof(ne)» FROM a WHERE «n2 = 7¦n3 > 'a'¦ng = 'K'¦n5 = 2¦ne = '1e2'» ORDER BY id
INSERT INTO a(id, x, y, n2, n3) VALUES «(4, 'r', 4, 0, 'b')¦(5, 's', 5, NULL, NULL)¦(6, 't', 6, 8, 'c')»
UPDATE a SET n2 = «NULL¦n2 + 1¦DEFAULT» WHERE id < 3 RETURNING id, n2
ALTER TABLE a RENAME COLUMN «x TO xx¦y TO yy¦nope TO z¦n2 TO n3¦n1 TO "a b"¦xx TO x»
SELECT * FROM big ORDER BY 1
SELECT «x¦xx¦yy¦"a b"¦y» FROM a WHERE «x = 'q'¦xx = 'q'¦yy = 2» ORDER BY id
ALTER TABLE a DROP COLUMN «yy¦z¦id¦nope¦n6¦n9¦"a b"»
DROP «VIEW¦TABLE¦INDEX» IF EXISTS «big¦a_y¦nothing»
ALTER TABLE a DROP COLUMN «yy¦n7»
SELECT * FROM a ORDER BY id
ALTER TABLE a RENAME TO «b¦c¦sqlite_c»
ALTER TABLE b RENAME TO «c¦a»
SELECT * FROM «a¦b¦c» WHERE x >= 'p' ORDER BY x «¦DESC»
CREATE TABLE «a¦b¦c¦d»(k TEXT, v INTEGER, PRIMARY KEY (k)) WITHOUT ROWID
CREATE TABLE IF NOT EXISTS «a¦d»(other)
INSERT INTO d VALUES ('«one¦two¦one»', «1¦2»)
SELECT k, v FROM d ORDER BY k
DROP TABLE «b¦nope¦d»
CREATE TABLE «e(a, a)¦e(a INTEGER PRIMARY KEY, b PRIMARY KEY)¦e(a REFERENCES)¦e()¦e(a NOT)¦e(a CHECK (nope > 1))¦e(a AS (b))¦e(a, UNIQUE (nope))¦e(a, PRIMARY KEY (a, nope))¦e(a) STRICT¦e(a FLOAT) STRICT¦e(a) WITHOUT ROWID¦e(a DEFAULT (b))¦e(a CHECK (random() > 1))¦e(a COLLATE nope)¦sqlite_e(a)¦e(a INTEGER AS (1) PRIMARY KEY)»
CREATE VIEW «v AS SELECT 1 AS one¦v AS SELECT 2¦w(a, b) AS SELECT x, id FROM c¦u AS SELECT nope FROM c¦t AS SELECT * FROM missing»
SELECT * FROM «v¦w¦u¦t¦w WHERE a = 'p'¦w JOIN v¦(SELECT * FROM w) WHERE b > 1»
«INSERT INTO v VALUES (1)¦UPDATE w SET a = 1¦DELETE FROM v¦CREATE INDEX v_one ON v(one)¦ALTER TABLE v ADD COLUMN x¦DROP TABLE v¦DROP VIEW c»
SELECT name, type FROM sqlite_schema WHERE name NOT LIKE 'sqlite%' ORDER BY 1
SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info('«a¦c¦v¦missing»')
