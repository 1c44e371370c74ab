/* html - parts of a self-contained HTML report: text, charts as SVG, pictures as data.
 *
 * Charts are drawn 400 wide, so that they can be read on a phone; colours are CSS classes that
 * page_style() gives a value for light and for dark. A chart has a title and a description for
 * those who cannot see it. Layer: apps. Threads: any, one per file. */
#ifndef APPS_COMMON_HTML_H
#define APPS_COMMON_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PAGE_WIDTH = 400, PAGE_LINES_HEIGHT = 300 };

/* A file that appears under its name at page_close(), whole or not at all. app_die() when it
 * cannot. */
struct page {
	FILE *out;
	char path[4096], temp[4096 + 32];
};
void page_open(struct page *page, const char *path);
void page_close(struct page *page);

/* The colours and fonts of charts, to be put between <style> and </style>. */
void page_style(FILE *out);
/* Text with what HTML would misread escaped. */
void page_text(FILE *out, const char *text);
void page_base64(FILE *out, const void *data, size_t len);

/* One bar. The css class names its colour: "value", "ref" or "auto". */
struct page_bar {
	char label[32];
	const char *css;
	double value; /* the solid part */
	double pale;  /* and what comes on top of it, or 0 */
	char text[48];
	bool first; /* of a group: some space before it */
};
double page_bars_height(const struct page_bar *bar, unsigned n);
/* An <svg> whose upper left corner lies at (0, y) of whatever holds it. */
void page_bars(FILE *out, double y, const char *title, const struct page_bar *bar, unsigned n);

/* Lines over logarithmic axes, points sorted by x, all above 0. */
struct page_line {
	const char *label, *css;
	const double *x, *y;
	unsigned n;
};
/* x is shown as bytes, y as a number of units ("per second"). */
void page_lines(FILE *out, const char *title, const char *unit, const struct page_line *line,
		unsigned n);

/* A picture of its own: an SVG file of that size, in which charts are drawn with a margin around
 * them; end it with "</svg>" and page_close(). */
enum { PAGE_MARGIN = 20 };
void page_picture(struct page *page, const char *path, int width, double height);
/* The same lines as such a file. */
void page_plot(const char *path, const char *title, const char *unit, const struct page_line *line,
	       unsigned n);

/* 1.5 KiB, 24.9 MB and the like into text; which is returned. */
const char *page_bytes(char text[32], double bytes);
const char *page_count(char text[32], double count);

#endif
