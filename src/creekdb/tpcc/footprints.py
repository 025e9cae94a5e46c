"""Footprints of the five transactions: the districts and warehouses that a call can touch.

Rows that a transaction finds by the values of other rows are declared by the part of the key that
the arguments hold. A Delivery, for instance, touches all customers of its warehouse. Items never
change, so a New-Order declares them as read only.
"""

from typing import Any

from creekdb.execution.datatype import Prefixes
from creekdb.protocol.values import Key
from creekdb.sql.catalog import SCHEMA_KEY
from creekdb.tpcc.layout import (
    CUSTOMERS_NAMED,
    LAST_ORDER,
    OLDEST_NEW_ORDER,
    register_prefixes,
)


class TpccFootprints:
    """Key prefixes of each transaction in one layout."""

    def __init__(self, layout: str) -> None:
        self._prefixes = register_prefixes(layout)
        self._always_read: list[Key] = [SCHEMA_KEY] if layout == "sql" else []
        """Registers that every transaction reads."""
        self.touches: dict[str, Prefixes] = {
            "new_order": self._new_order,
            "payment": self._payment,
            "delivery": self._delivery,
            "order_status": self._order_status,
            "stock_level": self._stock_level,
        }
        """Registers that a transaction reads and writes, by its name."""
        self.reads: dict[str, Prefixes] = {
            **dict.fromkeys(self.touches, lambda *arguments: self._always_read),
            "new_order": self._new_order_reads,
            "payment": self._payment_reads,
        }
        """Further registers that a transaction reads, by its name."""

    def _registers(self, name: str, *key: Any) -> list[Key]:
        """Return the prefixes of all registers of the rows whose keys begin with `key`."""
        return [(*prefix, *key) for prefix in self._prefixes[name]]

    def _new_order(self, w: Any, d: Any, c: Any, lines: Any) -> list[Key]:
        registers = self._registers
        prefixes = [
            *registers("district", w, d),
            *registers("orders", w, d),
            *registers("new_order", w, d),
            *registers("order_line", w, d),
            *registers(LAST_ORDER, w, d, c),
        ]
        for supplier in {supplier: None for _, supplier, _ in lines}:
            prefixes += registers("stock", supplier)
        return prefixes

    def _new_order_reads(self, w: Any, d: Any, c: Any, lines: Any) -> list[Key]:
        registers = self._registers
        return [
            *registers("warehouse", w),
            *registers("customer", w, d, c),
            *registers("item"),
            *self._always_read,
        ]

    def _payment(self, w: Any, d: Any, c_w: Any, c_d: Any, customer: Any, amount: Any) -> list[Key]:
        registers = self._registers
        found = (c_w, c_d, customer) if type(customer) is int else (c_w, c_d)
        return [
            *registers("warehouse", w),
            *registers("district", w, d),
            *registers("customer", *found),
            *registers("history", *found),
        ]

    def _payment_reads(
        self, w: Any, d: Any, c_w: Any, c_d: Any, customer: Any, amount: Any
    ) -> list[Key]:
        if type(customer) is int:
            return self._always_read
        return [*self._registers(CUSTOMERS_NAMED, c_w, c_d, customer), *self._always_read]

    def _delivery(self, w: Any, carrier: Any) -> list[Key]:
        registers = self._registers
        return [
            *registers(OLDEST_NEW_ORDER, w),
            *registers("new_order", w),
            *registers("orders", w),
            *registers("order_line", w),
            *registers("customer", w),
        ]

    def _order_status(self, w: Any, d: Any, customer: Any) -> list[Key]:
        registers = self._registers
        return [
            *registers(CUSTOMERS_NAMED, w, d),
            *registers(LAST_ORDER, w, d),
            *registers("customer", w, d),
            *registers("orders", w, d),
            *registers("order_line", w, d),
        ]

    def _stock_level(self, w: Any, d: Any, threshold: Any) -> list[Key]:
        registers = self._registers
        return [
            *registers("district", w, d),
            *registers("orders", w, d),
            *registers("order_line", w, d),
            *registers("stock", w),
        ]
