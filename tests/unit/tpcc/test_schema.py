"""The schema is that of clause 1.3, and position constants match the columns."""

from creekdb.tpcc import schema
from creekdb.tpcc.schema import TABLES

COLUMNS = {
    "warehouse": "w_id w_name w_street_1 w_street_2 w_city w_state w_zip w_tax w_ytd",
    "district": "d_id d_w_id d_name d_street_1 d_street_2 d_city d_state d_zip d_tax d_ytd"
    " d_next_o_id",
    "customer": "c_id c_d_id c_w_id c_first c_middle c_last c_street_1 c_street_2 c_city c_state"
    " c_zip c_phone c_since c_credit c_credit_lim c_discount c_balance c_ytd_payment"
    " c_payment_cnt c_delivery_cnt c_data",
    "history": "h_c_id h_c_d_id h_c_w_id h_d_id h_w_id h_date h_amount h_data h_number",
    "new_order": "no_o_id no_d_id no_w_id",
    "orders": "o_id o_d_id o_w_id o_c_id o_entry_d o_carrier_id o_ol_cnt o_all_local",
    "order_line": "ol_o_id ol_d_id ol_w_id ol_number ol_i_id ol_supply_w_id ol_delivery_d"
    " ol_quantity ol_amount ol_dist_info",
    "item": "i_id i_im_id i_name i_price i_data",
    "stock": "s_i_id s_w_id s_quantity s_dist s_ytd s_order_cnt s_remote_cnt s_data",
}


def test_tables_have_the_columns_of_clause_1_3() -> None:
    actual = {name: sorted((*table.key, *table.columns)) for name, table in TABLES.items()}

    assert actual == {name: sorted(columns.split()) for name, columns in COLUMNS.items()}


def test_position_constants_match_their_columns() -> None:
    for table in TABLES.values():
        for index, column in enumerate(table.columns):
            assert getattr(schema, column.upper()) == index


def test_column_names_are_unique_because_they_name_registers() -> None:
    names = [column for table in TABLES.values() for column in table.columns]

    assert len({*names, *TABLES}) == len(names) + len(TABLES)
