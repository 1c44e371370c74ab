#include "sim/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void print_value(const struct table *t, const struct table_cell *c)
{
	char text[64];

	if (c->word)
		snprintf(text, sizeof(text), t->form == TABLE_JSON ? "\"%s\"" : "%s", c->word);
	else if (isfinite(c->value))
		snprintf(text, sizeof(text), "%.*f", c->digits, c->value);
	else
		strcpy(text, t->form == TABLE_JSON ? "null" : "-");
	printf(t->form == TABLE_TEXT ? "%10s" : "%s", text);
}

static void print_heads(const struct table *t, const struct table_cell *cell, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (t->form == TABLE_CSV)
			printf("%s%s", i ? "," : "", cell[i].name);
		else if (cell[i].head)
			printf("%10s", cell[i].head);
	}
	putchar('\n');
}

void table_row(struct table *t, const struct table_cell *cell, uint32_t n)
{
	bool json = t->form == TABLE_JSON;

	if (json)
		fputs(t->rows ? ", {" : t->alone ? "{" : "{\"rows\": [{", stdout);
	else if (t->rows == 0)
		print_heads(t, cell, n);
	for (uint32_t i = 0; i < n; i++) {
		if (t->form == TABLE_TEXT && !cell[i].head)
			continue;
		if (i && t->form != TABLE_TEXT)
			fputs(json ? ", " : ",", stdout);
		if (json)
			printf("\"%s\": ", cell[i].name);
		print_value(t, &cell[i]);
	}
	puts(json ? "}" : "");
	fflush(stdout);
	t->rows++;
}

void table_end(struct table *t)
{
	if (t->form == TABLE_JSON && !t->alone)
		puts(t->rows ? "]}" : "{\"rows\": []}");
}
