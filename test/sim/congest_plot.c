/* congest_plot - a picture of a congestion run, whole in one SVG file. The other half of congest.h.
 * Layer: test/sim. */
#include <math.h>
#include <stdio.h>

#include "sim/congest.h"

enum { WIDTH = 640, CHART = 260, LEFT = 70, RIGHT = 30, TOP = 40, BOTTOM = 40, POINTS = 1000 };

/* Where a value lies between the ends of its axis. */
struct axis {
	double low, high;
	bool log;
};

static double share(const struct axis *a, double v)
{
	if (a->log)
		return log(v / a->low) / log(a->high / a->low);
	return (v - a->low) / (a->high - a->low);
}

static double at_x(const struct axis *a, double v)
{
	return LEFT + share(a, v) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axis *a, double v, double top)
{
	return top + CHART - BOTTOM - share(a, v) * (CHART - TOP - BOTTOM);
}

static void frame(FILE *f, double top, const char *title, const char *x, const char *y)
{
	fprintf(f,
		"<text class=\"head\" x=\"%d\" y=\"%.0f\">%s</text>\n"
		"<path class=\"rule\" d=\"M%d %.0fV%.0fH%d\"/>\n"
		"<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n"
		"<text x=\"%d\" y=\"%.0f\">%s</text>\n",
		LEFT, top + 18, title, LEFT, top + TOP, top + CHART - BOTTOM, WIDTH - RIGHT,
		WIDTH - RIGHT, top + CHART - 6, x, LEFT, top + 34, y);
}

static void tick_x(FILE *f, const struct axis *a, double v, double top)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%g</text>\n", at_x(a, v),
		top + CHART - BOTTOM + 16, v);
}

static void tick_y(FILE *f, const struct axis *a, double v, double top)
{
	fprintf(f,
		"<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
		"text-anchor=\"end\">%g</text>\n",
		LEFT, at_y(a, v, top), WIDTH - RIGHT, LEFT - 6, at_y(a, v, top) + 4, v);
}

static void ratios(FILE *f, const uint32_t *senders, const struct congest_result *r, uint32_t n)
{
	struct axis x = {senders[0], senders[n - 1] * (n == 1 ? 2 : 1), true}, y = {1, 10, true};

	for (uint32_t i = 0; i < n; i++)
		while ((double)r[i].completion / (double)r[i].ideal > y.high)
			y.high *= 10;
	frame(f, 0, "Time until all have sent, as a multiple of the wire's", "senders", "times");
	for (int i = 0; i <= lround(log10(y.high)); i++)
		tick_y(f, &y, pow(10, i), 0);
	for (uint32_t i = 0; i < n; i++)
		tick_x(f, &x, senders[i], 0);
	fputs("<path class=\"line\" d=\"", f);
	for (uint32_t i = 0; i < n; i++)
		fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', at_x(&x, senders[i]),
			at_y(&y, (double)r[i].completion / (double)r[i].ideal, 0));
	fputs("\"/>\n", f);
}

static void queue(FILE *f, const struct congest_plan *p, const struct congest_result *r)
{
	uint32_t step = 1 + r->samples / POINTS;
	struct axis x = {0, (double)r->samples * (double)r->every / 1e3, false};
	struct axis y = {0, (double)r->queue.max / 1024 + 1, false};
	char title[96];

	snprintf(title, sizeof(title), "Queue to the receiver, %u senders of %llu bytes",
		 p->senders, (unsigned long long)p->bytes);
	frame(f, CHART, title, "microseconds", "KiB");
	for (int i = 0; i <= 4; i++) {
		tick_y(f, &y, floor(y.high * i / 4), CHART);
		tick_x(f, &x, floor(x.high * i / 4), CHART);
	}
	fputs("<path class=\"line\" d=\"", f);
	for (uint32_t i = 0; i < r->samples; i += step) {
		uint64_t most = 0;

		for (uint32_t k = i; k < i + step && k < r->samples; k++)
			most = r->series[k] > most ? r->series[k] : most;
		fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M',
			at_x(&x, (double)i * (double)r->every / 1e3),
			at_y(&y, (double)most / 1024, CHART));
	}
	fputs("\"/>\n", f);
}

bool congest_plot(const char *path, const struct congest_plan *plan, const uint32_t *senders,
		  const struct congest_result *result, uint32_t n)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return false;
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
		"aria-label=\"Incast\">\n<style>text{font:12px system-ui,sans-serif;fill:#444}"
		".head{font-weight:600;font-size:14px}.rule{stroke:#888;fill:none}"
		".grid{stroke:#8883}.line{stroke:#2a6fdb;stroke-width:1.6;fill:none}"
		"@media(prefers-color-scheme:dark){text{fill:#ccc}}</style>\n",
		WIDTH, 2 * CHART);
	ratios(f, senders, result, n);
	queue(f, plan, &result[n - 1]);
	fputs("</svg>\n", f);
	return !fclose(f);
}
