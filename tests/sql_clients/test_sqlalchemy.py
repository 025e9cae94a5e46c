"""SQLAlchemy, pandas and Alembic on live clusters."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import alembic.command
import apsw
import pandas
import pytest
import sqlalchemy as sa
from alembic.config import Config
from sqlalchemy import orm
from sqlalchemy.dialects.sqlite import insert

from creekdb import dbapi
from tests.sql_clients import dialect
from tests.sql_clients.threaded_cluster import ThreadedCluster

dialect.register()


class Base(orm.DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(30), unique=True)
    orders: orm.Mapped[list["Order"]] = orm.relationship(
        back_populates="customer", cascade="all, delete-orphan"
    )


class Order(Base):
    __tablename__ = "orders"
    __table_args__ = (sa.Index("orders_by_customer", "customer_id", "item"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    customer_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("customer.id"))
    item: orm.Mapped[str]
    amount: orm.Mapped[int] = orm.mapped_column(sa.CheckConstraint("amount > 0"))
    customer: orm.Mapped[Customer] = orm.relationship(back_populates="orders")


@pytest.fixture
def engine(replica: ThreadedCluster) -> Iterator[sa.Engine]:
    created = sa.create_engine(f"creek://{replica.addresses()}/")
    yield created
    created.dispose()


def test_sessions_insert_query_change_and_delete_objects(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        ann = Customer(name="ann", orders=[Order(item="tea", amount=2)])
        session.add_all([ann, Customer(name="bob")])
        session.commit()
        ann.orders.append(Order(item="milk", amount=1))
        session.commit()
    with orm.Session(engine) as session:
        loaded = session.scalars(
            sa.select(Customer).options(orm.selectinload(Customer.orders)).order_by(Customer.name)
        ).all()
        assert [(each.name, sorted(order.item for order in each.orders)) for each in loaded] == [
            ("ann", ["milk", "tea"]),
            ("bob", []),
        ]
        session.delete(loaded[0])
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Order)) == 0


def test_a_nested_transaction_is_rolled_back_alone(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add(Customer(name="ann"))
        session.flush()
        with pytest.raises(sa.exc.IntegrityError) as failure, session.begin_nested():
            session.execute(sa.insert(Customer).values(name="ann"))
        session.commit()
        assert isinstance(failure.value.orig, dbapi.IntegrityError)
        assert failure.value.orig.sqlstate == "23505"
        assert session.scalars(sa.select(Customer.name)).all() == ["ann"]


def test_concurrent_sessions_get_a_serialization_failure(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with orm.Session(engine) as first, orm.Session(engine) as second:
        first.add(Customer(name="ann"))
        first.commit()
        for session, name in ((first, "eve"), (second, "joe")):
            session.scalars(sa.select(Customer)).one().name = name
        first.commit()
        with pytest.raises(sa.exc.OperationalError) as failure:
            second.commit()
        assert isinstance(failure.value.orig, dbapi.SerializationFailure)
        second.rollback()
        assert second.scalars(sa.select(Customer.name)).all() == ["eve"]


def test_the_consistency_of_a_statement_replaces_that_of_the_url(cluster: ThreadedCluster) -> None:
    addresses = cluster.addresses().split(",")
    url = f"creek://{addresses[0]}/?host={addresses[1]}&consistency=weak"
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE TABLE t(a INTEGER)"))
        change = sa.text("INSERT INTO t VALUES (1) RETURNING a")

        def state(**options: Any) -> str:
            with connection.execute(change, execution_options=options) as result:
                cursor: Any = result.cursor
                return str(cursor.outcome().state)

        assert state(consistency="strong") == "stable"
        assert state(consistency="weak") in ("tentative", "stable")
        with pytest.raises(sa.exc.InterfaceError, match="'weak' or 'strong'"):
            state(consistency="medium")
        raw: Any = connection.connection.dbapi_connection
        assert (raw.consistency, raw.autocommit) == ("weak", True)
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("creek://a:1/", "a:1"),
        ("creek://a", "a:7100"),
        ("creek://a:1/?host=b:2&host=c:3", "a:1,b:2,c:3"),
        ("creek://[a:1,b:2]/", "a:1,b:2"),
        ("creek://?host=a:1", "a:1"),
    ],
)
def test_urls_name_one_or_more_replicas(url: str, addresses: str) -> None:
    engine = sa.create_engine(url)
    assert engine.dialect.create_connect_args(engine.url) == ([addresses], {})


def test_unknown_settings_of_a_url_are_refused() -> None:
    with pytest.raises(sa.exc.ArgumentError, match="unknown setting 'level'"):
        sa.create_engine("creek://a:1/?level=weak").connect()


def test_reflection_finds_what_was_created(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE VIEW large AS SELECT id FROM orders WHERE amount > 9"))
    found = sa.MetaData()
    found.reflect(engine)
    orders = found.tables["orders"]
    assert [column.name for column in orders.columns] == ["id", "customer_id", "item", "amount"]
    assert [key.target_fullname for key in orders.foreign_keys] == ["customer.id"]
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["customer", "orders"]
    assert inspector.get_view_names() == ["large"]
    assert "amount > 9" in inspector.get_view_definition("large")
    assert inspector.get_unique_constraints("customer")[0]["column_names"] == ["name"]
    assert inspector.get_indexes("orders")[0]["column_names"] == ["customer_id", "item"]
    assert inspector.get_check_constraints("orders")[0]["sqltext"] == "amount > 0"
    assert inspector.get_schema_names() == ["main"]
    assert not inspector.has_table("customer", schema="other")
    with pytest.raises(sa.exc.NoSuchTableError):
        inspector.get_columns("absent")


def test_upserts_of_the_sqlite_dialect_work(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    upsert = insert(Customer).values(name="ann")
    upsert = upsert.on_conflict_do_update(index_elements=["name"], set_={"name": "eve"})
    with engine.begin() as connection:
        connection.execute(upsert)
        connection.execute(upsert)
        assert connection.scalars(sa.select(Customer.name)).all() == ["eve"]


def test_pandas_writes_and_reads_tables(engine: sa.Engine) -> None:
    frame = pandas.DataFrame({"item": ["tea", "milk", None], "price": [2.5, 1.25, 0.5]})
    assert frame.to_sql("price", engine, index=False) == 3
    assert frame.to_sql("price", engine, index=False, if_exists="append", method="multi") == 3
    read = pandas.read_sql(
        "SELECT * FROM price WHERE price > ? ORDER BY price", engine, params=(1,)
    )
    assert read["item"].tolist() == ["milk", "milk", "tea", "tea"]
    pandas.testing.assert_frame_equal(
        pandas.read_sql_table("price", engine).drop_duplicates().reset_index(drop=True), frame
    )


MIGRATIONS = {
    "1": (
        "op.create_table('item', sa.Column('id', sa.Integer, primary_key=True), "
        "sa.Column('name', sa.String(20)))",
        "op.drop_table('item')",
    ),
    "2": (
        "op.add_column('item', sa.Column('stock', sa.Integer, server_default='7'))\n"
        "    op.create_index('item_by_name', 'item', ['name'])\n"
        "    op.alter_column('item', 'name', new_column_name='title')",
        "op.drop_index('item_by_name')\n    op.drop_column('item', 'stock')\n"
        "    op.alter_column('item', 'title', new_column_name='name')",
    ),
    "3": (
        "with op.batch_alter_table('item') as batch:\n"
        "        batch.alter_column('title', type_=sa.String(50), nullable=False)",
        "pass",
    ),
}
ENVIRONMENT = """
from alembic import context
from sqlalchemy import create_engine
engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
"""


def write_migrations(directory: Path, url: str) -> Config:
    (directory / "versions").mkdir(parents=True)
    (directory / "env.py").write_text(ENVIRONMENT)
    previous = None
    for name, (upgrade, downgrade) in MIGRATIONS.items():
        (directory / "versions" / f"{name}.py").write_text(
            f"import sqlalchemy as sa\nfrom alembic import op\n"
            f"revision = {name!r}\ndown_revision = {previous!r}\n"
            f"def upgrade():\n    {upgrade}\ndef downgrade():\n    {downgrade}\n"
        )
        previous = name
    config = Config()
    config.set_main_option("script_location", str(directory))
    config.set_main_option("path_separator", "os")
    config.set_main_option("sqlalchemy.url", url)
    return config


def test_alembic_migrates_up_and_down(engine: sa.Engine, tmp_path: Path) -> None:
    url = engine.url.render_as_string(hide_password=False)
    config = write_migrations(tmp_path / "migrations", url)
    alembic.command.upgrade(config, "1")
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO item(id, name) VALUES (1, 'tea')"))
    alembic.command.upgrade(config, "head")
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT id, title, stock FROM item")).all()
        assert [tuple(row) for row in rows] == [(1, "tea", 7)]
    inspector = sa.inspect(engine)
    assert [each["name"] for each in inspector.get_indexes("item")] == ["item_by_name"]
    assert [each["nullable"] for each in inspector.get_columns("item")] == [False, False, True]
    alembic.command.downgrade(config, "1")
    assert [each["name"] for each in sa.inspect(engine).get_columns("item")] == ["id", "name"]


def test_the_declared_version_of_sqlite_is_that_of_the_engine() -> None:
    version = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    assert version == dbapi.sqlite_version_info


def test_migrations_can_be_imported_before_alembic() -> None:
    """Alembic loads the plugins of installed packages, so this module too, while it is imported."""
    imported = "import creekdb.sqlalchemy.migrations as it; print(it.CreekImpl.__dialect__)"
    run = subprocess.run([sys.executable, "-c", imported], capture_output=True, check=True)
    assert run.stdout == b"creek\n"
