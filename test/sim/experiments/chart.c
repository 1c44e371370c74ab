#include "sim/experiments/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	WIDTH = 720,
	HEIGHT = 280, /* height of a panel */
	LEFT = 64,
	RIGHT = 110,
	TOP = 44,
	BOTTOM = 44,
	POINTS = 240, /* per line: more are thinned, and the largest of each group stays */
	FEW = 12,     /* up to this many points may each have a tick */
	NAME = 14,    /* height of a line of text */
};

struct axis {
	double low, high;
	bool log;
};

static double axis_share(const struct axis *a, double v)
{
	if (a->log)
		return log(fmax(v, a->low) / a->low) / log(a->high / a->low);
	return (v - a->low) / (a->high - a->low);
}

static double at_x(const struct axis *a, double v)
{
	return LEFT + axis_share(a, v) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axis *a, double v, double top)
{
	return top + HEIGHT - BOTTOM - axis_share(a, v) * (HEIGHT - TOP - BOTTOM);
}

/* Rounds to whole powers of ten, or to zero and an end that a few round steps divide. */
static void round_axis(struct axis *a)
{
	double unit;

	if (a->log) {
		a->low = pow(10, floor(log10(a->low) + 1e-9));
		a->high = pow(10, ceil(log10(a->high) - 1e-9));
		if (a->high <= a->low)
			a->high = 10 * a->low;
		return;
	}
	a->low = 0;
	unit = pow(10, floor(log10(fmax(a->high, 1e-9))));
	a->high = ceil(fmax(a->high, 1e-9) / unit) * unit;
}

static void fit_axis(struct axis *a, double v)
{
	if (!isfinite(v) || (a->log && v <= 0))
		return;
	a->low = fmin(a->low, v);
	a->high = fmax(a->high, v);
}

static void scale_axes(const struct chart *c, struct axis *x, struct axis *y)
{
	*x = (struct axis){HUGE_VAL, 0, c->log_x};
	*y = (struct axis){HUGE_VAL, c->high, c->log_y};
	for (uint32_t l = 0; l < c->lines; l++)
		for (uint32_t i = 0; i < c->line[l].n; i++) {
			fit_axis(x, c->line[l].x[i]);
			fit_axis(y, c->line[l].y[i]);
		}
	round_axis(y);
	if (!c->log_x)
		x->low = fmin(x->low, x->high - 1e-9);
	else if (x->high <= x->low)
		x->high = 2 * x->low;
}

static void tick_x(FILE *f, const struct axis *a, double v, double top)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.4g%s</text>\n", at_x(a, v),
		top + HEIGHT - BOTTOM + 16,
		v >= 1e6   ? v / 1e6
		: v >= 1e4 ? v / 1e3
			   : v,
		v >= 1e6   ? "M"
		: v >= 1e4 ? "k"
			   : "");
}

static void tick_y(FILE *f, const struct axis *a, double v, double top)
{
	fprintf(f,
		"<path class=\"g\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
		"text-anchor=\"end\">%.4g</text>\n",
		LEFT, at_y(a, v, top), WIDTH - RIGHT, LEFT - 6, at_y(a, v, top) + 4, v);
}

static void draw_ticks(FILE *f, const struct chart *c, const struct axis *x, const struct axis *y,
		       double top)
{
	const struct chart_line *first = &c->line[0];

	for (double v = y->low; y->log && v <= y->high * 1.01; v *= 10)
		tick_y(f, y, v, top);
	for (int i = 0; !y->log && i <= 4; i++)
		tick_y(f, y, y->high * i / 4, top);
	for (uint32_t i = 0; first->n <= FEW && i < first->n; i++)
		tick_x(f, x, first->x[i], top);
	for (int i = 0; first->n > FEW && !x->log && i <= 5; i++)
		tick_x(f, x, x->low + (x->high - x->low) * i / 5, top);
	for (double v = pow(10, ceil(log10(x->low))); first->n > FEW && x->log && v <= x->high;
	     v *= 10)
		tick_x(f, x, v, top);
}

static void draw_frame(FILE *f, const struct chart *c, double top)
{
	fprintf(f,
		"<text class=\"h\" x=\"%d\" y=\"%.0f\">%s</text>\n"
		"<path class=\"r\" d=\"M%d %.0fV%.0fH%d\"/>\n"
		"<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n"
		"<text x=\"%d\" y=\"%.0f\">%s</text>\n",
		LEFT, top + 18, c->title, LEFT, top + TOP, top + HEIGHT - BOTTOM, WIDTH - RIGHT,
		WIDTH - RIGHT, top + HEIGHT - 10, c->x, LEFT, top + 36, c->y);
}

static void draw_line(FILE *f, const struct chart_line *l, const struct axis *x,
		      const struct axis *y, double top)
{
	uint32_t step = 1 + (l->n - !!l->n) / POINTS;
	bool pen = false;

	fprintf(f, "<path class=\"l c%u\" d=\"", l->color);
	for (uint32_t i = 0; i < l->n; i += step) {
		double most = l->y[i];

		for (uint32_t k = i; k < i + step && k < l->n; k++)
			most = fmax(most, l->y[k]);
		if (isfinite(most))
			fprintf(f, "%c%.1f %.1f", pen ? 'L' : 'M', at_x(x, l->x[i]),
				at_y(y, most, top));
		pen = isfinite(most);
	}
	fputs("\"/>\n", f);
}

/* Writes the names at the ends of their lines, each as near as the other names allow. */
static void draw_names(FILE *f, const struct chart *c, const struct axis *y, double top)
{
	double at[CHART_LINES], last = -HUGE_VAL;
	uint32_t order[CHART_LINES], k;

	for (uint32_t l = 0; l < c->lines; l++) {
		uint32_t n = c->line[l].n;

		while (n > 1 && !isfinite(c->line[l].y[n - 1]))
			n--;
		at[l] =
		    n && isfinite(c->line[l].y[n - 1]) ? at_y(y, c->line[l].y[n - 1], top) : top;
		for (k = l; k > 0 && at[order[k - 1]] > at[l]; k--)
			order[k] = order[k - 1];
		order[k] = l;
	}
	/* From the lowest up, so that no name ends below the axis. */
	for (k = c->lines, last = HUGE_VAL; k-- > 0; last = at[order[k]])
		at[order[k]] = fmin(at[order[k]] + 4, last - NAME);
	for (uint32_t l = 0; c->lines > 1 && l < c->lines; l++)
		fprintf(f, "<text class=\"t%u\" x=\"%d\" y=\"%.1f\">%s</text>\n", c->line[l].color,
			WIDTH - RIGHT + 6, at[l], c->line[l].name);
}

static void write_style(FILE *f, double height)
{
	static const char *const color[CHART_COLORS] = {"#8a8a8a", "#c2410c", "#2e8b57", "#a33ea1",
							"#2a6fdb", "#b8860b", "#707070"};

	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" role=\"img\">\n"
		"<style>text{font:12px system-ui,sans-serif;fill:#444}.h{font-weight:600;"
		"font-size:14px}.r{stroke:#888;fill:none}.g{stroke:#8883}.l{stroke-width:1.6;"
		"fill:none}",
		WIDTH, height);
	for (int i = 0; i < CHART_COLORS; i++)
		fprintf(f, ".c%d{stroke:%s%s}.t%d{fill:%s}", i, color[i],
			i == CHART_REFERENCE ? ";stroke-dasharray:5 3" : "", i, color[i]);
	fputs("@media(prefers-color-scheme:dark){text{fill:#ccc}}</style>\n", f);
}

bool chart_write(const char *path, const struct chart *panel, uint32_t panels)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return false;
	write_style(f, (double)panels * HEIGHT);
	for (uint32_t p = 0; p < panels; p++) {
		struct axis x, y;
		double top = (double)p * HEIGHT;

		scale_axes(&panel[p], &x, &y);
		draw_frame(f, &panel[p], top);
		draw_ticks(f, &panel[p], &x, &y, top);
		for (uint32_t l = 0; l < panel[p].lines; l++)
			draw_line(f, &panel[p].line[l], &x, &y, top);
		draw_names(f, &panel[p], &y, top);
	}
	fputs("</svg>\n", f);
	return !fclose(f);
}
