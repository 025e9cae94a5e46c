-- Comparisons, conversions and keys: every type of column, with and without an index.
CREATE TABLE plain(id INTEGER PRIMARY KEY, i INTEGER, r REAL, t TEXT, b BLOB, n NUMERIC, x, c TEXT COLLATE NOCASE)
CREATE TABLE indexed(id INTEGER PRIMARY KEY, i INTEGER, r REAL, t TEXT, b BLOB, n NUMERIC, x, c TEXT COLLATE NOCASE)
CREATE INDEX indexed_«i¦r¦t¦b¦n¦x¦c» ON indexed(«i¦r¦t¦b¦n¦x¦c»)
DROP INDEX IF EXISTS indexed_i
CREATE INDEX indexed_i ON indexed(i DESC, x)
INSERT INTO plain VALUES (1, 5, 1.5, 'a', x'61', 5, 5, 'a'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, -3, -2.25, 'B', x'', '7', '5', 'B'), (4, 9007199254740993, 9007199254740992.0, 'b ', x'00', 9007199254740993, 5.0, 'b ')
INSERT INTO plain VALUES (5, '12', '12', 12, 12, '12', '12', 12), (6, 'zz', 'zz', '', 'a', 'zz', x'61', ''), (7, 9223372036854775807, 1e300, 'é', x'ff', 1e300, -1, 'É'), (8, 0, 0.0, '05', 0, 0, '', '05'), (9, 1.5, 2, 'A', 'A', 1.5, 1.5, 'A')
INSERT INTO indexed SELECT * FROM plain
SELECT id FROM «plain¦indexed» WHERE «i¦r¦t¦b¦n¦x¦c» «=¦<¦>=¦IS NOT» «5¦1.5¦'5'¦'a'¦x'61'¦9007199254740993¦-3» ORDER BY id
SELECT id FROM «plain¦indexed» WHERE «i¦n¦x¦t» «IS¦<>¦<=¦>¦IS NOT DISTINCT FROM» «NULL¦'12'¦12.0¦'B'¦0» ORDER BY id
SELECT id FROM «plain¦indexed» WHERE «i¦r¦t¦x¦c» BETWEEN «-3¦'A'» AND «12¦'b'¦1e300» ORDER BY «id¦i, id¦x DESC, id¦c, id»
SELECT id FROM «plain¦indexed» WHERE «i¦t¦x¦c¦b» «IN¦NOT IN» «(5, 'a', NULL)¦('B', 'b ', x'61')¦(12, '12', 12.0)¦()¦(SELECT x FROM plain)¦(SELECT t FROM indexed WHERE t > 'A')» ORDER BY id
SELECT id FROM «plain¦indexed» WHERE «t¦c¦x» «LIKE¦GLOB» «'a%'¦'A*'¦'%'¦'_'¦'[ab]*'¦'1%'» ORDER BY id
SELECT id, «i¦r¦n¦x» FROM indexed ORDER BY «i¦r¦n¦x» «ASC¦DESC» «NULLS FIRST¦NULLS LAST», id LIMIT «3¦20 OFFSET 2»
SELECT typeof(i), typeof(r), typeof(t), typeof(b), typeof(n), typeof(x) FROM indexed WHERE id = «1¦3¦5¦6¦'7'¦8.0¦'x'¦NULL¦9.5»
SELECT a.id, z.id FROM «plain¦indexed» a JOIN indexed z ON a.«i¦t¦x¦c» «=¦<» z.«i¦t¦x¦c» ORDER BY 1, 2
SELECT id FROM indexed WHERE i > «0¦-5¦1.5¦'1'» AND i «<¦<=» «5¦12¦'a'» ORDER BY «i¦i DESC», id
SELECT id FROM indexed WHERE «i¦x» = 5 AND «x¦t» «=¦>» «5¦'a'» ORDER BY id
SELECT id FROM indexed WHERE «i = 5 OR t = 'a'¦i IN (5, 12) AND x = 5¦NOT (i > 4)¦i + 0 = 5¦+i = 5¦-i = 3¦i || '' = '5'¦x = '5' COLLATE NOCASE¦c = 'É'¦t = 'a' COLLATE NOCASE¦c > 'a' COLLATE BINARY¦t COLLATE RTRIM = 'b'» ORDER BY id
SELECT count(*) FROM indexed WHERE «rowid¦oid¦_rowid_¦id» «= 3¦> 3¦IN (1, 3, '5', 99)¦BETWEEN 2 AND 4¦IS NULL¦< 2.5¦>= '7'¦> 'a'¦<= x'00'»
SELECT «min¦max¦count¦total»(«i¦t¦x») FROM indexed WHERE id «< 6¦> 3¦<> 4»
SELECT id FROM «plain¦indexed» WHERE «i¦r¦n¦x» «=¦<» «t¦c¦x¦b¦i + 0.0¦CAST(t AS INTEGER)» ORDER BY id
SELECT id, i FROM indexed WHERE «i¦x¦n» «>¦<=» «1¦'1'¦1.5» AND «r¦t¦c» IS NOT NULL ORDER BY «i¦x¦n» «¦DESC», id
