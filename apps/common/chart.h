/* chart - bars, and lines over a pair of axes, as SVG: in an HTML page or in a file of their own.
 *
 * A chart of CHART_NARROW units is readable on a phone. It has a title for screen readers, and so
 * has each point of a short line: browsers show it under the pointer.
 * Layer: apps. Threads: any, one per file. */
#ifndef APPS_COMMON_CHART_H
#define APPS_COMMON_CHART_H

#include "apps/common/html.h"

enum { CHART_NARROW = 400, CHART_WIDE = 720, CHART_HEIGHT = 280, CHART_MARGIN = 20 };
enum { CHART_LINES = 12 };

/* One bar. The css class names its color: "value", "ref", "auto" or "pool". */
struct chart_bar {
	char label[32];
	const char *css;
	double value; /* the solid part */
	double pale;  /* the pale part on top of it, or 0 */
	char text[48];
	bool first; /* the first of a group: some space before it */
};
double chart_bars_height(const struct chart_bar *bar, unsigned n);
/* Prints an <svg> element with its upper left corner at (0, y) of the enclosing element. */
void chart_bars(FILE *out, double y, const char *title, const struct chart_bar *bar, unsigned n);

/* CHART_REFERENCE is dashed. */
enum chart_color {
	CHART_GREY,
	CHART_VALUE,
	CHART_AUTO,
	CHART_POOL,
	CHART_REF,
	CHART_GOLD,
	CHART_REFERENCE
};
struct chart_line {
	const char *name;
	const double *x, *y; /* sorted by x; the line has a gap where y is not finite */
	unsigned n;
	uint8_t color;
};
struct chart_axis {
	enum page_unit unit;
	bool log;
	double high; /* least upper end; 0: fits the data */
};
struct chart {
	const char *title, *by; /* by: name of the x axis */
	struct chart_axis x, y;
	struct chart_line line[CHART_LINES];
	unsigned lines;
};
/* Prints an <svg> element of CHART_HEIGHT, placed like that of chart_bars(). */
void chart_lines(FILE *out, double y, int width, const struct chart *chart);

/* Opens a picture: an SVG file with a margin around that size. To finish it, print "</svg>" and
 * call page_close(). False: errno is set. */
bool chart_open(struct page *page, const char *path, int width, double height);
/* Writes a picture of the panels one above the other. False: errno is set. */
bool chart_write(const char *path, const struct chart *panel, unsigned panels);

#endif
