"""Footprints of the five transactions: the districts and warehouses that a call can touch.

Rows that a transaction finds by the values of other rows are declared by the part of the key that
the arguments hold. A Delivery, for instance, touches all customers of its warehouse. Items never
change, so a New-Order declares them as read only.
"""

from typing import Any

from creekdb.execution.datatype import Prefixes
from creekdb.protocol.values import Key
from creekdb.tpcc.layout import CUSTOMERS_NAMED, LAST_ORDER, OLDEST_NEW_ORDER, TpccTables


class TpccFootprints:
    """Key prefixes of each transaction on the tables of one layout."""

    def __init__(self, tables: TpccTables) -> None:
        self._tables = tables
        self.touches: dict[str, Prefixes] = {
            "new_order": self._new_order,
            "payment": self._payment,
            "delivery": self._delivery,
            "order_status": self._order_status,
            "stock_level": self._stock_level,
        }
        """Registers that a transaction reads and writes, by its name."""
        self.reads: dict[str, Prefixes] = {
            "new_order": self._new_order_reads,
            "payment": self._payment_reads,
        }
        """Further registers that a transaction reads, by its name."""

    def _new_order(self, w: Any, d: Any, c: Any, lines: Any) -> list[Key]:
        tables = self._tables
        prefixes = [
            *tables.district.registers(w, d),
            *tables.orders.registers(w, d),
            *tables.new_order.registers(w, d),
            *tables.order_line.registers(w, d),
            (LAST_ORDER, w, d, c),
        ]
        for supplier in {supplier: None for _, supplier, _ in lines}:
            prefixes += tables.stock.registers(supplier)
        return prefixes

    def _new_order_reads(self, w: Any, d: Any, c: Any, lines: Any) -> list[Key]:
        tables = self._tables
        return [
            *tables.warehouse.registers(w),
            *tables.customer.registers(w, d, c),
            *tables.item.registers(),
        ]

    def _payment(self, w: Any, d: Any, c_w: Any, c_d: Any, customer: Any, amount: Any) -> list[Key]:
        tables = self._tables
        found = (c_w, c_d, customer) if type(customer) is int else (c_w, c_d)
        return [
            *tables.warehouse.registers(w),
            *tables.district.registers(w, d),
            *tables.customer.registers(*found),
            *tables.history.registers(*found),
        ]

    def _payment_reads(
        self, w: Any, d: Any, c_w: Any, c_d: Any, customer: Any, amount: Any
    ) -> list[Key]:
        return [] if type(customer) is int else [(CUSTOMERS_NAMED, c_w, c_d, customer)]

    def _delivery(self, w: Any, carrier: Any) -> list[Key]:
        tables = self._tables
        return [
            (OLDEST_NEW_ORDER, w),
            *tables.new_order.registers(w),
            *tables.orders.registers(w),
            *tables.order_line.registers(w),
            *tables.customer.registers(w),
        ]

    def _order_status(self, w: Any, d: Any, customer: Any) -> list[Key]:
        tables = self._tables
        return [
            (CUSTOMERS_NAMED, w, d),
            (LAST_ORDER, w, d),
            *tables.customer.registers(w, d),
            *tables.orders.registers(w, d),
            *tables.order_line.registers(w, d),
        ]

    def _stock_level(self, w: Any, d: Any, threshold: Any) -> list[Key]:
        tables = self._tables
        return [
            *tables.district.registers(w, d),
            *tables.orders.registers(w, d),
            *tables.order_line.registers(w, d),
            *tables.stock.registers(w),
        ]
