/* html - parts of a self-contained HTML report or SVG file: style, text, numbers, pictures as data.
 *
 * Colors are CSS classes; page_style() defines their values for light and dark mode.
 * Layer: apps. Threads: any, one per file. */
#ifndef APPS_COMMON_HTML_H
#define APPS_COMMON_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A file that appears under its name at page_close(), complete or not at all. False: errno is set.
 */
struct page {
	FILE *out;
	char path[4096], temp[4096 + 32];
};
bool page_open(struct page *page, const char *path);
bool page_close(struct page *page);

/* Prints the colors and fonts of charts, for use between <style> and </style>. */
void page_style(FILE *out);
/* Prints text with HTML's special characters escaped. */
void page_text(FILE *out, const char *text);
void page_base64(FILE *out, const void *data, size_t len);

enum page_unit {
	PAGE_COUNT,
	PAGE_PERCENT,
	PAGE_US,
	PAGE_BYTES, /* powers of 1000 */
	PAGE_SIZE,  /* bytes, powers of 1024 */
	PAGE_RATE   /* bytes per second */
};
/* Formats a value of that unit into text with three or four digits, for example "24.9 MB" or "1.5
 * ms"; returns text. */
const char *page_number(char text[32], enum page_unit unit, double value);

#endif
