/* Goal: a browser can show a chart with any figures.
 * Method: lines with gaps, one point, no point, zeros and many points. Tags are closed, no
 * coordinate is outside the picture or not a number, and thinning keeps the largest point.
 * Covers: apps/common/chart.c, apps/common/html.c */
#include "apps/common/chart.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 20];

static void draw_chart(const struct chart *panel, unsigned panels)
{
	char path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/chart_test.%d.svg", (int)getpid());
	cr_assert(chart_write(path, panel, panels));
	f = fopen(path, "r");
	cr_assert(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	unlink(path);
	cr_assert_null(strstr(text, "nan"));
	cr_assert_null(strstr(text, "inf"));
	cr_assert_str_eq(text + n - 7, "</svg>\n");
}

/* Stores the largest and least y in a panel, over the points of all lines. */
static void find_heights(double *least, double *most)
{
	*least = HUGE_VAL;
	*most = -HUGE_VAL;
	for (const char *path = text; (path = strstr(path, "<path class=\"line")); path++) {
		const char *end = strstr(path, "\"/>"), *at = strstr(path, "d=\"") + 3;

		while (at < end) {
			char *rest;
			double x = strtod(at + 1, &rest), y = strtod(rest, &rest);

			cr_assert(x >= 0 && x <= CHART_WIDE, "x is %g", x);
			*least = fmin(*least, y);
			*most = fmax(*most, y);
			at = rest;
		}
	}
}

Test(chart, gaps_points_and_nothing)
{
	static const double x[] = {8, 65536, 1 << 20}, gap[] = {1, NAN, 3000};
	static const double zero[] = {0, INFINITY, 0};
	struct chart c[] = {
	    {"a", "x", .x = {PAGE_SIZE, .log = true}, .y = {PAGE_US, .log = true},
	     .line = {{"gap", x, gap, 3, CHART_GREY}, {"<", x, gap, 1, CHART_REF}}, .lines = 2},
	    {"b", "x",
	     .line = {{"zero", x, zero, 3, CHART_GOLD}, {"none", x, zero, 0, CHART_REFERENCE}},
	     .lines = 2},
	    {"c", "x", .line = {{"one", x, gap, 1, CHART_POOL}}, .lines = 1},
	    {"d", "x", .y = {PAGE_RATE, .log = true}}};
	double least, most;

	draw_chart(c, 4);
	find_heights(&least, &most);
	cr_assert(least >= 52 && most <= CHART_HEIGHT - 40, "%g to %g", least, most);
	cr_assert_not_null(strstr(text, "<path class=\"line grey\" d=\"M62.0 240.0M694.0 "));
	cr_assert_not_null(strstr(text, "<path class=\"line gold\" d=\"M62.0 240.0M694.0 240.0"));
	cr_assert_not_null(strstr(text, ">gap</text>"));
	cr_assert_not_null(strstr(text, ">64 KiB</text>"));
	cr_assert_not_null(strstr(text, ">10 ms</text>"));
	cr_assert_not_null(strstr(text, "<title>gap, 1 MiB: 3 ms</title>"));
	cr_assert_not_null(strstr(text, "<title>&lt;, 8 B: 1 us</title>"));
	cr_assert_not(chart_write("/nowhere/at.all", c, 2));
}

Test(chart, the_largest_of_many_stays)
{
	enum { MANY = 100001 };
	double *x = calloc(2 * MANY, sizeof(*x)), *y = x + MANY, least, most;
	struct chart c = {"c", "x", .line = {{"l", x, y, MANY, CHART_GREY}}, .lines = 1};

	cr_assert(x);
	for (int i = 0; i < MANY; i++)
		x[i] = i;
	y[77777] = 100;
	draw_chart(&c, 1);
	find_heights(&least, &most);
	cr_assert_float_eq(least, 52, 0.1, "the top of the panel, not %g", least);
	cr_assert_not_null(strstr(text, ">60 k</text>"));
	cr_assert_lt(strlen(text), 20000);
	free(x);
}

Test(chart, numbers)
{
	static const struct {
		enum page_unit unit;
		double value;
		const char *text;
	} row[] = {{PAGE_COUNT, 4096, "4096"},     {PAGE_COUNT, 24900, "24.9 k"},
		   {PAGE_PERCENT, 2000, "2000 %"}, {PAGE_US, 0, "0 us"},
		   {PAGE_US, 999.6, "1 ms"},       {PAGE_SIZE, 1000, "1000 B"},
		   {PAGE_SIZE, 1536, "1.5 KiB"},   {PAGE_RATE, 2.5e12, "2500 GB/s"}};
	char out[32];

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		cr_expect_str_eq(page_number(out, row[i].unit, row[i].value), row[i].text);
}
