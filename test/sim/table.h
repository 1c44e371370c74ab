/* table - rows of figures: an aligned table, CSV, or JSON. Layer: test/sim. */
#ifndef TEST_SIM_TABLE_H
#define TEST_SIM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

enum table_form { TABLE_TEXT, TABLE_CSV, TABLE_JSON };

struct table_cell {
	const char *name; /* in CSV and JSON */
	const char *head; /* in a table; NULL: hidden there */
	const char *word; /* text value, if it is no number */
	double value;
	uint8_t digits; /* after the decimal point */
};
struct table {
	enum table_form form;
	bool alone; /* only one row: JSON is that row, not an array */
	uint32_t rows;
};

/* Rows have the same cells in the same order. */
void table_row(struct table *t, const struct table_cell *cell, uint32_t n);
void table_end(struct table *t);

#endif
