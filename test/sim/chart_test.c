/* Goal: a browser can show a chart with any figures.
 * Method: lines with gaps, one point, no point, zeros and many points. Tags are closed, no
 * coordinate is outside the picture or not a number, and thinning keeps the largest point.
 * Covers: test/sim/experiments/chart.c */
#include "sim/experiments/chart.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 20];

static void draw_chart(const struct chart *panel, uint32_t panels)
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

/* Stores the largest and least y on the page, over the points of all lines. */
static void find_heights(double *least, double *most)
{
	*least = HUGE_VAL;
	*most = -HUGE_VAL;
	for (const char *path = text; (path = strstr(path, "<path class=\"l")); path++) {
		const char *end = strstr(path, "\"/>"), *at = strstr(path, "d=\"") + 3;

		while (at < end) {
			char *rest;
			double x = strtod(at + 1, &rest), y = strtod(rest, &rest);

			cr_assert(x >= 0 && x <= 720, "x is %g", x);
			*least = fmin(*least, y);
			*most = fmax(*most, y);
			at = rest;
		}
	}
}

Test(chart, gaps_points_and_nothing)
{
	static const double x[] = {8, 64, 512}, gap[] = {1, NAN, 30}, zero[] = {0, 0, 0};
	struct chart c[] = {
	    {.title = "a",
	     .x = "x",
	     .y = "y",
	     .log_x = true,
	     .log_y = true,
	     .line = {{"gap", x, gap, 3, 0}, {"one", x, gap, 1, 1}},
	     .lines = 2},
	    {.title = "b",
	     .x = "x",
	     .y = "y",
	     .line = {{"zero", x, zero, 3, 2}, {"none", x, zero, 0, CHART_REFERENCE}},
	     .lines = 2}};
	double least, most;

	draw_chart(c, 2);
	find_heights(&least, &most);
	cr_assert(least >= 44 && most <= 2 * 280 - 44, "%g to %g", least, most);
	cr_assert_not_null(strstr(text, ">gap</text>"));
	cr_assert_not_null(strstr(text, ">512</text>"));
	cr_assert_not(chart_write("/nowhere/at.all", c, 2));
}

Test(chart, the_largest_of_many_stays)
{
	enum { MANY = 100001 };
	double *x = calloc(2 * MANY, sizeof(*x)), *y = x + MANY, least, most;
	struct chart c = {.title = "c", .line = {{"l", x, y, MANY, 0}}, .lines = 1};

	cr_assert(x);
	c.x = c.y = "u";
	for (int i = 0; i < MANY; i++)
		x[i] = i;
	y[77777] = 100;
	draw_chart(&c, 1);
	find_heights(&least, &most);
	cr_assert_float_eq(least, 44, 0.1, "the top of the panel, not %g", least);
	cr_assert_lt(strlen(text), 20000);
	free(x);
}
