"""Mutants of TPC-C: rules of the transactions, of the population, the load and the conditions."""

from tests.mutants.catalogue import Edit, MutantWithTests, tested

TRANSACTIONS = "tpcc/transactions.py"
NEW_ORDER_TESTS = "tests/unit/tpcc/test_transactions_new_order.py"
PAYMENT_TESTS = "tests/unit/tpcc/test_transactions_payment.py"
DELIVERY_TESTS = "tests/unit/tpcc/test_transactions_delivery.py"
QUERY_TESTS = "tests/unit/tpcc/test_transactions_queries.py"
CONSISTENCY = "tpcc/consistency.py"
CONSISTENCY_TESTS = "tests/unit/tpcc/test_consistency.py"
ROWS = "tpcc/population/rows.py"
ROW_TESTS = "tests/unit/tpcc/population/test_rows.py"
WORKLOAD = "tpcc/workload.py"
WORKLOAD_TESTS = "tests/unit/tpcc/test_workload.py"
LAYOUT = "tpcc/layout.py"
LAYOUT_TESTS = "tests/unit/tpcc/test_layout.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    # --- transactions ---------------------------------------------------------------------------
    tested(
        "new_order_skips_an_order_number",
        "clause 2.4.2.2: D_NEXT_O_ID grows by one",
        NEW_ORDER_TESTS,
        TRANSACTIONS,
        "district.set(D_NEXT_O_ID, order + 1)",
        "district.set(D_NEXT_O_ID, order + 2)",
    ),
    tested(
        "new_order_refills_stock_too_early",
        "clause 2.4.2.2: a stock is refilled if fewer than ten would remain",
        NEW_ORDER_TESTS,
        TRANSACTIONS,
        "if remaining < REORDER_MARGIN:",
        "if remaining <= REORDER_MARGIN:",
    ),
    tested(
        "new_order_counts_local_lines_as_remote",
        "clause 2.4.2.2: S_REMOTE_CNT counts lines of other warehouses",
        NEW_ORDER_TESTS,
        TRANSACTIONS,
        "    if is_remote:\n        stock.add(S_REMOTE_CNT, 1)",
        "    stock.add(S_REMOTE_CNT, 1)",
    ),
    tested(
        "new_order_takes_the_text_of_the_next_district",
        "clause 2.4.2.2: OL_DIST_INFO is the text of the district",
        NEW_ORDER_TESTS,
        TRANSACTIONS,
        "stock[S_DIST][(d - 1) * DISTRICT_TEXT : d * DISTRICT_TEXT]",
        "stock[S_DIST][d * DISTRICT_TEXT : (d + 1) * DISTRICT_TEXT]",
    ),
    tested(
        "new_order_brands_by_one_mark",
        "clause 2.4.2.2: an item is a brand if item and stock both are original",
        NEW_ORDER_TESTS,
        TRANSACTIONS,
        "if ORIGINAL_MARK in item[I_DATA] and ORIGINAL_MARK in stock[S_DATA]",
        "if ORIGINAL_MARK in item[I_DATA] or ORIGINAL_MARK in stock[S_DATA]",
    ),
    tested(
        "new_order_rounds_the_total_down",
        "clause 2.4.2.2: the total includes discount and taxes, rounded",
        NEW_ORDER_TESTS,
        TRANSACTIONS,
        "(scaled_total + RATE_SCALE * RATE_SCALE // 2)",
        "(scaled_total)",
    ),
    tested(
        "delivery_does_not_advance",
        "clause 2.7.4.2: each delivery delivers the oldest new order",
        DELIVERY_TESTS,
        TRANSACTIONS,
        "    tx.put((OLDEST_NEW_ORDER, w, d), number + 1)\n",
        "",
    ),
    tested(
        "delivery_omits_the_last_line",
        "clause 2.7.4.2: C_BALANCE grows by the amounts of all lines",
        DELIVERY_TESTS,
        TRANSACTIONS,
        "        line = tables.order_line.row(tx, w, d, number, index)\n        amount +=",
        "        line = tables.order_line.row(tx, w, d, number, max(1, index - 1))\n"
        "        amount +=",
    ),
    tested(
        "payment_credits_the_customer",
        "clause 2.5.2.2: a payment lowers C_BALANCE",
        PAYMENT_TESTS,
        TRANSACTIONS,
        "row.add(C_BALANCE, -amount)",
        "row.add(C_BALANCE, amount)",
    ),
    tested(
        "payment_is_booked_at_the_home_of_the_customer",
        "clause 2.5.2.2: the receiving district books the payment",
        PAYMENT_TESTS,
        TRANSACTIONS,
        "    district = tables.district.row(tx, w, d)\n    d_fixed",
        "    district = tables.district.row(tx, c_w, c_d)\n    d_fixed",
    ),
    tested(
        "payment_cuts_customer_data_one_short",
        "clause 2.5.2.2: C_DATA holds up to 500 characters",
        PAYMENT_TESTS,
        TRANSACTIONS,
        "(entry + row.get(C_DATA))[:DATA_MAX]",
        "(entry + row.get(C_DATA))[: DATA_MAX - 1]",
    ),
    tested(
        "payment_marks_good_credit",
        "clause 2.5.2.2: C_DATA changes for bad credit only",
        PAYMENT_TESTS,
        TRANSACTIONS,
        "if fixed[C_CREDIT] == BAD_CREDIT:",
        "if fixed[C_CREDIT]:",
    ),
    tested(
        "stock_level_reads_one_order_less",
        "clause 2.8.2.2: the last twenty orders count",
        QUERY_TESTS,
        TRANSACTIONS,
        "range(stop - RECENT_ORDERS, stop)",
        "range(stop - RECENT_ORDERS + 1, stop)",
    ),
    tested(
        "stock_level_includes_the_threshold",
        "clause 2.8.2.2: a stock below the threshold counts",
        QUERY_TESTS,
        TRANSACTIONS,
        "value(tx, S_QUANTITY, w, i) < threshold",
        "value(tx, S_QUANTITY, w, i) <= threshold",
    ),
    MutantWithTests(
        "stock_level_counts_repeated_items",
        "clause 2.8.2.2: distinct items count",
        (QUERY_TESTS,),
        (
            Edit(TRANSACTIONS, "items: dict[int, None] = {}", "items: list[int] = []"),
            Edit(
                TRANSACTIONS,
                "items[pick(tx, (w, d, order, number), OL_I_ID)[0]] = None",
                "items.append(pick(tx, (w, d, order, number), OL_I_ID)[0])",
            ),
        ),
    ),
    # --- consistency conditions -----------------------------------------------------------------
    tested(
        "condition_2_ignores_new_orders",
        "clause 3.3.2.2: D_NEXT_O_ID is one above the newest new order",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        '"max(NO_O_ID)", newest)',
        '"max(NO_O_ID)", next_o_id - 1)',
    ),
    tested(
        "condition_3_accepts_gaps",
        "clause 3.3.2.3: new orders have no gaps",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        "left, newest - oldest + 1, right, len(new_numbers))",
        "left, len(new_numbers), right, len(new_numbers))",
    ),
    tested(
        "condition_5_ignores_undelivered_orders",
        "clause 3.3.2.5: an order without a carrier has a NEW_ORDER row",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        "    elif order.is_delivered == order.is_new:",
        "    elif order.is_delivered and order.is_new:",
    ),
    tested(
        "condition_7_ignores_undelivered_lines",
        "clause 3.3.2.7: the lines of a delivered order have a delivery date",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        "if order.lines_delivered != (order.lines if order.is_delivered else 0):",
        "if order.lines_delivered > (order.lines if order.is_delivered else 0):",
    ),
    tested(
        "condition_8_compares_with_districts",
        "clause 3.3.2.8: W_YTD is the sum of H_AMOUNT",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        '"the sum of H_AMOUNT", sum(paid))',
        '"the sum of H_AMOUNT", sum(ytd))',
    ),
    tested(
        "condition_10_ignores_payments",
        "clause 3.3.2.10: C_BALANCE is the delivered less the paid amount",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        '"C_BALANCE", balance, right, delivered - paid)',
        '"C_BALANCE", balance, right, min(balance, delivered - paid))',
    ),
    tested(
        "condition_11_ignores_deliveries",
        "clause 3.3.2.11: orders less new orders are the deliveries",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        "delivered, right, DELIVERED + counted)",
        "delivered, right, max(delivered, DELIVERED + counted))",
    ),
    tested(
        "condition_12_ignores_payments",
        "clause 3.3.2.12: C_BALANCE and C_YTD_PAYMENT are the delivered amount",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        '"the amount delivered"\n        yield from _compare("3.3.2.12", at, left, total,',
        '"the amount delivered"\n        yield from _compare("3.3.2.12", at, left, delivered,',
    ),
    tested(
        "conditions_skip_touched_customers",
        "a customer is checked if a payment touched it",
        CONSISTENCY_TESTS,
        CONSISTENCY,
        "_CUSTOMER_REGISTERS: Final = (CUSTOMER.name, HISTORY.name, LAST_ORDER)",
        "_CUSTOMER_REGISTERS: Final = (CUSTOMER.name, LAST_ORDER)",
    ),
    # --- population and load --------------------------------------------------------------------
    tested(
        "population_selects_one_of_nine",
        "clause 4.3.3.1: exactly 10 % of the rows are original",
        ROW_TESTS,
        ROWS,
        "return tens % 10 == number % 10",
        "return tens % 20 == number % 10",
    ),
    tested(
        "population_delivers_one_order_more",
        "clause 4.3.3.1: 2,100 orders of a district are delivered",
        ROW_TESTS,
        ROWS,
        "o > DELIVERED, number_between(splitmix64(word + COLUMN_OFFSETS[1]), 1, 10)",
        "o > DELIVERED + 1, number_between(splitmix64(word + COLUMN_OFFSETS[1]), 1, 10)",
    ),
    tested(
        "population_orders_names_by_number",
        "clause 2.5.2.2: customers of one last name are sorted by first name",
        ROW_TESTS,
        ROWS,
        "key=lambda c: (first_name(w, d, c), c)",
        "key=lambda c: (c, first_name(w, d, c))",
    ),
    tested(
        "workload_orders_from_home_only",
        "clause 2.4.1.5: one line in a hundred comes from another warehouse",
        WORKLOAD_TESTS,
        WORKLOAD,
        "supplier = self._other_warehouse() if random() < 0.01 else home",
        "supplier = home",
    ),
    tested(
        "workload_chooses_the_home_warehouse_as_another",
        "another warehouse is not the home warehouse",
        WORKLOAD_TESTS,
        WORKLOAD,
        "return drawn + (drawn >= self.warehouse)",
        "return drawn + (drawn > self.warehouse)",
    ),
    tested(
        "workload_pays_in_its_own_district",
        "clause 2.5.1.2: the district of a remote customer is random",
        WORKLOAD_TESTS,
        WORKLOAD,
        "self._other_warehouse(), self._between(1, DISTRICTS)",
        "self._other_warehouse(), district",
    ),
    tested(
        "workload_never_orders_unused_items",
        "clause 2.4.1.4: one New-Order in a hundred rolls back",
        WORKLOAD_TESTS,
        WORKLOAD,
        "            lines[-1] = UNUSED_ITEM, supplier, quantity",
        "            lines[-1] = lines[-1][0], supplier, quantity",
    ),
    tested(
        "workload_pays_by_name_in_half_of_the_cases",
        "clause 2.5.1.2: 60 % of the customers are selected by last name",
        WORKLOAD_TESTS,
        WORKLOAD,
        "if self._random() < 0.6:",
        "if self._random() < 0.5:",
    ),
    tested(
        "layout_loses_unsaved_additions",
        "a row includes its unsaved updates",
        LAYOUT_TESTS,
        LAYOUT,
        "return (self._changed or self.fixed)[column]",
        "return self.fixed[column]",
    ),
    tested(
        "layout_keeps_columns_of_deleted_rows",
        "a deleted row of the layout `fine` leaves no register",
        LAYOUT_TESTS,
        LAYOUT,
        "        for column in self.columns[self._fixed :]:\n            tx.delete(",
        "        for column in self.columns[self._fixed + 1 :]:\n            tx.delete(",
    ),
)
