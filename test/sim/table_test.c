/* Goal: rows can be read by people, spreadsheets and programs.
 * Method: the same two rows in each form, compared byte by byte, with a text, a hidden column and a
 * value that is no number.
 * Covers: test/sim/table.c */
#include "sim/table.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdio.h>

static void print_rows(enum table_form form, bool alone, uint32_t n)
{
	struct table t = {form, alone, 0};

	for (uint32_t i = 0; i < n; i++) {
		const struct table_cell cell[] = {{"cc", "cc", "credit", 0, 0},
						  {"n", "senders", NULL, 8 + i, 0},
						  {"hidden", NULL, NULL, 1.25, 1},
						  {"ratio", "ratio", NULL, i ? NAN : 1.049, 2}};

		table_row(&t, cell, 4);
	}
	table_end(&t);
	fflush(stdout);
}

Test(table, as_text, .init = cr_redirect_stdout)
{
	print_rows(TABLE_TEXT, false, 2);
	cr_assert_stdout_eq_str("        cc   senders     ratio\n"
				"    credit         8      1.05\n"
				"    credit         9         -\n");
}

Test(table, as_csv, .init = cr_redirect_stdout)
{
	print_rows(TABLE_CSV, false, 2);
	cr_assert_stdout_eq_str("cc,n,hidden,ratio\ncredit,8,1.2,1.05\ncredit,9,1.2,-\n");
}

Test(table, as_json, .init = cr_redirect_stdout)
{
	print_rows(TABLE_JSON, false, 2);
	cr_assert_stdout_eq_str(
	    "{\"rows\": [{\"cc\": \"credit\", \"n\": 8, \"hidden\": 1.2, \"ratio\": 1.05}\n"
	    ", {\"cc\": \"credit\", \"n\": 9, \"hidden\": 1.2, \"ratio\": null}\n]}\n");
}

Test(table, one_row_is_the_object, .init = cr_redirect_stdout)
{
	print_rows(TABLE_JSON, true, 1);
	cr_assert_stdout_eq_str(
	    "{\"cc\": \"credit\", \"n\": 8, \"hidden\": 1.2, \"ratio\": 1.05}\n");
}

Test(table, none_is_a_list, .init = cr_redirect_stdout)
{
	print_rows(TABLE_JSON, false, 0);
	cr_assert_stdout_eq_str("{\"rows\": []}\n");
}
