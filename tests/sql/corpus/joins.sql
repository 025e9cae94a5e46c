-- Joins, subqueries and compound queries.
CREATE TABLE team(id INTEGER PRIMARY KEY, name TEXT NOT NULL, lead INTEGER)
CREATE TABLE person(code TEXT PRIMARY KEY, team INTEGER REFERENCES team(id), age INTEGER, boss TEXT) WITHOUT ROWID
CREATE TABLE task(team INTEGER, code TEXT, hours REAL, PRIMARY KEY (team, code)) WITHOUT ROWID
CREATE INDEX person_by_team ON person(team, age)
INSERT INTO team VALUES (1, 'red', 7), (2, 'blue', NULL), (3, 'green', 9), (4, 'grey', 1)
INSERT INTO person VALUES ('ann', 1, 30, NULL), ('bob', 1, 40, 'ann'), ('cyd', 2, 30, 'ann'), ('dan', NULL, 20, 'bob'), ('eve', 3, NULL, 'cyd'), ('flo', 2, 51, 'eve')
INSERT INTO task VALUES (1, 'ann', 1.5), (1, 'bob', 2), (2, 'cyd', 0.25), (2, 'zoe', 4), (9, 'ann', 8)
SELECT name, code FROM team «JOIN¦LEFT JOIN¦RIGHT JOIN¦FULL JOIN¦CROSS JOIN» person ON team.id = person.team ORDER BY 1, 2
SELECT name, code FROM team «,¦JOIN¦CROSS JOIN» person WHERE «team.id = person.team¦team.id <> person.team¦person.age > 30¦team.lead IS NULL¦person.team IS NULL» ORDER BY 1, 2
SELECT * FROM person «JOIN¦LEFT JOIN¦FULL JOIN¦NATURAL JOIN¦NATURAL LEFT JOIN» task «USING (team)¦USING (code)¦USING (team, code)» ORDER BY 1, 2, 3, 4
SELECT p.code, b.code, c.code FROM person p «JOIN¦LEFT JOIN» person b ON p.boss = b.code «JOIN¦LEFT JOIN» person c ON b.boss = c.code WHERE p.age «> 0¦IS NULL¦IN (20, 30)» ORDER BY 1, 2, 3
SELECT name, (SELECT «count(*)¦max(age)¦min(code)¦sum(age)¦group_concat(code ORDER BY code)» FROM person WHERE team = team.id «AND age > 30¦¦AND boss IS NULL») FROM team ORDER BY id
SELECT name FROM team WHERE «EXISTS¦NOT EXISTS» (SELECT 1 FROM person WHERE person.team = team.id «AND age < 31¦¦AND boss IS NOT NULL¦OR person.team IS NULL») ORDER BY 1
SELECT code FROM person WHERE team «IN¦NOT IN» (SELECT «id FROM team WHERE lead > 1¦team FROM task¦id FROM team WHERE name LIKE 'g%'¦team FROM person WHERE age = 30¦lead FROM team») ORDER BY 1
SELECT code FROM person WHERE (team, code) «IN¦NOT IN» (SELECT team, code FROM task «WHERE hours > 1¦») ORDER BY 1
SELECT code FROM person WHERE (age, code) «<¦<=¦>¦=¦<>» «(30, 'bob')¦(SELECT age, code FROM person WHERE code = 'cyd')» ORDER BY 1
SELECT «team¦age¦boss» FROM person «UNION¦UNION ALL¦EXCEPT¦INTERSECT» SELECT «team¦hours¦code» FROM task ORDER BY 1
SELECT code FROM person «UNION¦EXCEPT¦INTERSECT» SELECT code FROM task «UNION¦EXCEPT¦UNION ALL» SELECT name FROM team ORDER BY 1 «LIMIT 3¦¦DESC¦LIMIT 2 OFFSET 4»
SELECT q.n, count(*) FROM (SELECT team AS n FROM person «WHERE age > 20¦¦ORDER BY age LIMIT 4») q «JOIN team ON n = id¦LEFT JOIN task ON n = task.team¦» GROUP BY q.n «HAVING count(*) > 1¦ORDER BY 2, 1¦»
SELECT * FROM (SELECT team, max(age) AS oldest FROM person GROUP BY team) JOIN team ON id = team WHERE oldest «> 30¦= 51¦IS NOT NULL» ORDER BY «name¦oldest, name»
SELECT t.code, t.hours FROM task t WHERE t.hours «>¦>=¦=¦<» (SELECT «avg¦max¦min¦total»(hours) FROM task u WHERE u.team «= t.team¦<> t.team») ORDER BY 1, 2
SELECT code FROM person «NOT INDEXED¦AS p» WHERE team = 1 ORDER BY 1
SELECT a.code, b.code FROM person a JOIN person b ON a.team = b.team AND a.code «<¦<>¦<=» b.code AND a.age «<¦>¦IS NOT» b.age ORDER BY 1, 2
SELECT task.*, team.name FROM task LEFT JOIN team ON team.id = task.team AND «name <> 'red'¦hours > 1¦lead IS NULL¦1¦0» ORDER BY 1, 2
SELECT «team.name¦max(team.name)¦count(DISTINCT person.age)» FROM team JOIN person ON person.team = team.id GROUP BY team.«id¦lead¦name» ORDER BY 1
SELECT CASE «team¦age» WHEN 1 THEN 'one' WHEN 30 THEN 'thirty' «ELSE code¦» END FROM person ORDER BY code
WITH RECURSIVE chain(code, depth) AS (SELECT code, 0 FROM person WHERE boss IS NULL «UNION¦UNION ALL» SELECT person.code, depth + 1 FROM person JOIN chain ON boss = chain.code WHERE depth < «1¦2¦9») SELECT * FROM chain ORDER BY «1¦2, 1¦depth DESC, code»
WITH a AS «(SELECT * FROM person WHERE age > 25)¦MATERIALIZED (SELECT * FROM person)¦NOT MATERIALIZED (SELECT * FROM person WHERE team = 2)», b(n) AS (SELECT count(*) FROM a) SELECT code, n FROM a, b «WHERE n > 1¦ORDER BY 1¦ORDER BY age DESC, code LIMIT 2»
CREATE TABLE word(w TEXT PRIMARY KEY, b BLOB UNIQUE)
CREATE TABLE num(i INTEGER PRIMARY KEY, r REAL, n)
INSERT INTO word VALUES ('1', '01'), ('01', 1), (' 1', '1'), ('x', x'01'), ('-9223372036854775808', 1.5)
INSERT INTO num VALUES (1, 1.0, '1'), (2, 1.0, 1), (-9223372036854775808, -9223372036854775808, -9223372036854775808.0)
SELECT «i¦DISTINCT i¦w, b, i¦count(*)» FROM num «LEFT ¦RIGHT ¦»JOIN word ON word.«w¦b» = num.«i¦r¦n»
SELECT a.i, b.i FROM num AS a «LEFT ¦»JOIN num AS b ON a.i = b.«r¦n»
SELECT w, b FROM word WHERE (w, b) «IN¦NOT IN» («SELECT i, r FROM num¦SELECT r, i FROM num¦SELECT n, n FROM num¦SELECT i, w FROM num, word¦VALUES (1, 1), ('x', x'01')¦VALUES ('1', '01')»)
