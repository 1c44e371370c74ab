/* chart - lines over a pair of axes, as a self-contained SVG file. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_CHART_H
#define SIM_EXPERIMENTS_CHART_H

#include <stdbool.h>
#include <stdint.h>

enum { CHART_LINES = 12, CHART_COLORS = 7, CHART_REFERENCE = CHART_COLORS - 1 };

struct chart_line {
	const char *name; /* label at the end of the line */
	const double *x, *y;
	uint32_t n;
	uint8_t color; /* CHART_REFERENCE is grey and dashed */
};
struct chart {
	const char *title, *x, *y;
	bool log_x, log_y;
	double high; /* least upper end of the y axis; 0: fits the data */
	struct chart_line line[CHART_LINES];
	uint32_t lines;
};

/* Writes the panels one above the other. False: errno is set. */
bool chart_write(const char *path, const struct chart *panel, uint32_t panels);

#endif
