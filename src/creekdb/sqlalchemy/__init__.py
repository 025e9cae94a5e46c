"""SQLAlchemy on a cluster with the data type `sql`.

    engine = sqlalchemy.create_engine("creek://127.0.0.1:7100/?consistency=weak")
    with engine.connect() as connection:
        strong = connection.execution_options(consistency="strong")

The entry point `creek` of `sqlalchemy.dialects` names the dialect, so that SQLAlchemy finds it.
"""

from creekdb.sqlalchemy.dialect import CreekDialect as CreekDialect
