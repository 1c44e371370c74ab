/* html - parts of a self-contained HTML report: text, charts as SVG, pictures as data.
 *
 * Charts are 400 units wide, so that they are readable on a phone. Colours are CSS classes;
 * page_style() defines their values for light and dark mode. A chart has a title and a description
 * for screen readers. Layer: apps. Threads: any, one per file. */
#ifndef APPS_COMMON_HTML_H
#define APPS_COMMON_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PAGE_WIDTH = 400, PAGE_LINES_HEIGHT = 300 };

/* A file that appears under its name at page_close(), complete or not at all. app_die() when it
 * cannot be written. */
struct page {
	FILE *out;
	char path[4096], temp[4096 + 32];
};
void page_open(struct page *page, const char *path);
void page_close(struct page *page);

/* Prints the colours and fonts of charts, for use between <style> and </style>. */
void page_style(FILE *out);
/* Prints text with HTML's special characters escaped. */
void page_text(FILE *out, const char *text);
void page_base64(FILE *out, const void *data, size_t len);

/* One bar. The css class names its colour: "value", "ref" or "auto". */
struct page_bar {
	char label[32];
	const char *css;
	double value; /* the solid part */
	double pale;  /* the pale part on top of it, or 0 */
	char text[48];
	bool first; /* the first of a group: some space before it */
};
double page_bars_height(const struct page_bar *bar, unsigned n);
/* Prints an <svg> element with its upper left corner at (0, y) of the enclosing element. */
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

/* Opens a picture: an SVG file of that size. Charts are drawn into it with a margin around them. To
 * finish it, print "</svg>" and call page_close(). */
enum { PAGE_MARGIN = 20 };
void page_picture(struct page *page, const char *path, int width, double height);
/* Writes the lines of page_lines() as an SVG file. */
void page_plot(const char *path, const char *title, const char *unit, const struct page_line *line,
	       unsigned n);

/* Format a number into text, for example "1.5 KiB" or "24.9 MB"; return text. */
const char *page_bytes(char text[32], double bytes);
const char *page_count(char text[32], double count);

#endif
