/* chart - see chart.h. */
#include "apps/common/chart.h"

#include <math.h>
#include <string.h>

static void svg_begin(FILE *out, double y, int width, double height, const char *title)
{
	static unsigned id;

	fprintf(out,
		"<svg y=\"%.0f\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
		"aria-labelledby=\"chart%u\"><title id=\"chart%u\">",
		y, width, height, width, height, id, id);
	id++;
	page_text(out, title);
	fputs("</title>\n<text class=\"head\" x=\"0\" y=\"15\">", out);
	page_text(out, title);
	fputs("</text>\n", out);
}

enum { HEAD = 28, BAR = 20, STEP = 24, GROUP = 12, LABEL = 156, TEXT = 108 };

double chart_bars_height(const struct chart_bar *bar, unsigned n)
{
	double height = HEAD;

	for (unsigned i = 0; i < n; i++)
		height += STEP + (bar[i].first && i ? GROUP : 0);
	return height;
}

static void draw_rect(FILE *out, const struct chart_bar *bar, double y, double width, bool pale)
{
	fprintf(out,
		"<rect class=\"%s%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"3\"/>",
		bar->css, pale ? " pale" : "", LABEL, y, fmax(width, 1.5), BAR);
}

void chart_bars(FILE *out, double y, const char *title, const struct chart_bar *bar, unsigned n)
{
	double most = 1e-12, at = HEAD, room = CHART_NARROW - LABEL - TEXT;

	for (unsigned i = 0; i < n; i++)
		most = fmax(most, bar[i].value + bar[i].pale);
	svg_begin(out, y, CHART_NARROW, chart_bars_height(bar, n), title);
	for (unsigned i = 0; i < n; i++) {
		double solid = room * bar[i].value / most, pale = room * bar[i].pale / most;

		at += bar[i].first && i ? GROUP : 0;
		fprintf(out, "<g><text class=\"soft\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
			LABEL - 8, at + 14);
		page_text(out, bar[i].label);
		fputs("</text>", out);
		if (pale > 0)
			draw_rect(out, &bar[i], at, solid + pale, true);
		draw_rect(out, &bar[i], at, solid, false);
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">", LABEL + fmax(solid + pale, 1.5) + 6,
			at + 15);
		page_text(out, bar[i].text);
		fputs("</text></g>\n", out);
		at += STEP;
	}
	fputs("</svg>\n", out);
}

enum {
	LEFT = 62,
	RIGHT = 26,
	TOP = 52,
	BOTTOM = 40,
	POINTS = 240,  /* per line: more are thinned, and the largest of each group stays */
	FEW = 32,      /* up to this many points of a line are marked */
	TICK_ROOM = 50 /* least distance of two ticks of the x axis */
};

/* An axis as drawn: value low is at begin, high at end. */
struct axis {
	const struct chart_axis *as;
	double low, high, begin, end;
};

static double axis_at(const struct axis *a, double v)
{
	double share = a->as->log ? log(fmax(v, a->low) / a->low) / log(a->high / a->low)
				  : (v - a->low) / (a->high - a->low);

	return a->begin + share * (a->end - a->begin);
}

static void fit_axis(struct axis *a, double v)
{
	if (!isfinite(v) || (a->as->log && v <= 0))
		return;
	a->low = fmin(a->low, v);
	a->high = fmax(a->high, v);
}

/* Returns a round number that divides a range into at most five steps. */
static double round_step(double range)
{
	static const double digit[] = {1, 2, 2.5, 5, 10};
	double unit = pow(10, floor(log10(range / 5)));
	int i = 0;

	while (i < 4 && range > 5.000001 * digit[i] * unit)
		i++;
	return digit[i] * unit;
}

/* Makes room around a single value, or around none. */
static void widen_axis(struct axis *a)
{
	if (!isfinite(a->low))
		a->low = a->high = 1;
	if (a->high > a->low)
		return;
	a->high = a->high > 0 ? 2 * a->high : 1;
	a->low /= 2;
}

/* Rounds to whole powers of ten, or to zero and a whole number of round steps. */
static void round_axis(struct axis *a)
{
	double step;

	if (!a->as->log)
		a->low = 0;
	widen_axis(a);
	if (a->as->log) {
		a->low = pow(10, floor(log10(a->low) + 1e-9));
		a->high = pow(10, ceil(log10(a->high) - 1e-9));
	} else {
		step = round_step(a->high);
		a->high = step * ceil(a->high / step - 1e-9);
	}
}

static void scale_axes(const struct chart *c, struct axis *x, struct axis *y)
{
	for (unsigned l = 0; l < c->lines; l++)
		for (unsigned i = 0; i < c->line[l].n; i++) {
			fit_axis(x, c->line[l].x[i]);
			fit_axis(y, c->line[l].y[i]);
		}
	widen_axis(x);
	round_axis(y);
}

static void tick_x(FILE *out, const struct axis *a, double v)
{
	char text[32];

	fprintf(out, "<text class=\"soft\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
		axis_at(a, v), CHART_HEIGHT - BOTTOM + 17, page_number(text, a->as->unit, v));
}

static void tick_y(FILE *out, const struct axis *a, double v, double right)
{
	double y = axis_at(a, v);
	char text[32];

	fprintf(out,
		"<path class=\"rule\" d=\"M%d %.1fH%.0f\"/><text class=\"soft\" x=\"%d\" "
		"y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		LEFT, y, right, LEFT - 6, y + 4, page_number(text, a->as->unit, v));
}

static void draw_ticks(FILE *out, const struct chart *c, const struct axis *x, const struct axis *y)
{
	const struct chart_line *first = &c->line[0];
	double step = round_step(y->high), last = -TICK_ROOM;

	for (double v = y->low; v <= y->high * 1.001; v = y->as->log ? v * 10 : v + step)
		tick_y(out, y, v, x->end);
	step = round_step(x->high - x->low);
	for (double v = step * ceil(x->low / step); !x->as->log && first->n > FEW && v <= x->high;
	     v += step)
		tick_x(out, x, v);
	for (unsigned i = 0; (x->as->log || first->n <= FEW) && i < first->n; i++)
		if (axis_at(x, first->x[i]) >= last + TICK_ROOM) {
			last = axis_at(x, first->x[i]);
			tick_x(out, x, first->x[i]);
		}
	fprintf(out, "<text class=\"soft\" x=\"%.0f\" y=\"%d\" text-anchor=\"end\">", x->end,
		CHART_HEIGHT - 6);
	page_text(out, c->by);
	fputs("</text>\n", out);
}

static const char *const css[] = {"grey", "value", "auto", "pool", "ref", "gold", "reference"};

static void draw_names(FILE *out, const struct chart *c)
{
	double x = LEFT;

	for (unsigned i = 0; i < c->lines; i++) {
		const struct chart_line *l = &c->line[i];

		fprintf(out,
			"<rect class=\"%s\" x=\"%.0f\" y=\"27\" width=\"12\" height=\"12\" "
			"rx=\"3\"/><text class=\"soft\" x=\"%.0f\" y=\"37\">",
			css[l->color], x, x + 17);
		page_text(out, l->name);
		fputs("</text>\n", out);
		x += 34 + 7.0 * (double)strlen(l->name);
	}
}

static void draw_path(FILE *out, const struct chart_line *l, const struct axis *x,
		      const struct axis *y)
{
	unsigned step = 1 + (l->n - !!l->n) / POINTS;
	bool pen = false;

	fprintf(out, "<path class=\"line %s\" d=\"", css[l->color]);
	for (unsigned i = 0; i < l->n; i += step) {
		double most = l->y[i];

		for (unsigned k = i; k < i + step && k < l->n; k++)
			most = fmax(most, l->y[k]);
		if (isfinite(most))
			fprintf(out, "%c%.1f %.1f", pen ? 'L' : 'M', axis_at(x, l->x[i]),
				axis_at(y, most));
		pen = isfinite(most);
	}
	fputs("\"/>\n", out);
}

static void draw_points(FILE *out, const struct chart_line *l, const struct axis *x,
			const struct axis *y)
{
	char at[32], value[32];

	for (unsigned i = 0; l->n <= FEW && i < l->n; i++)
		if (isfinite(l->y[i])) {
			fprintf(out,
				"<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>",
				css[l->color], axis_at(x, l->x[i]), axis_at(y, l->y[i]));
			page_text(out, l->name);
			fprintf(out, ", %s: %s</title></circle>\n",
				page_number(at, x->as->unit, l->x[i]),
				page_number(value, y->as->unit, l->y[i]));
		}
}

void chart_lines(FILE *out, double y, int width, const struct chart *chart)
{
	struct axis across = {&chart->x, HUGE_VAL, chart->x.high, LEFT, width - RIGHT};
	struct axis up = {&chart->y, HUGE_VAL, chart->y.high, CHART_HEIGHT - BOTTOM, TOP};

	scale_axes(chart, &across, &up);
	svg_begin(out, y, width, CHART_HEIGHT, chart->title);
	draw_names(out, chart);
	draw_ticks(out, chart, &across, &up);
	for (unsigned l = 0; l < chart->lines; l++) {
		draw_path(out, &chart->line[l], &across, &up);
		draw_points(out, &chart->line[l], &across, &up);
	}
	fputs("</svg>\n", out);
}

bool chart_open(struct page *page, const char *path, int width, double height)
{
	if (!page_open(page, path))
		return false;
	width += 2 * CHART_MARGIN;
	height += 2 * CHART_MARGIN;
	fprintf(page->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"viewBox=\"0 0 %d %.0f\">\n<style>",
		width, height, width, height);
	page_style(page->out);
	fprintf(
	    page->out,
	    "</style>\n<rect width=\"%d\" height=\"%.0f\" rx=\"12\" style=\"fill:var(--bg)\"/>\n",
	    width, height);
	return true;
}

bool chart_write(const char *path, const struct chart *panel, unsigned panels)
{
	enum { STRIDE = CHART_HEIGHT + CHART_MARGIN };
	struct page page;

	if (!chart_open(&page, path, CHART_WIDE, panels * STRIDE - CHART_MARGIN))
		return false;
	fprintf(page.out, "<g transform=\"translate(%d %d)\">\n", CHART_MARGIN, CHART_MARGIN);
	for (unsigned p = 0; p < panels; p++)
		chart_lines(page.out, p * STRIDE, CHART_WIDE, &panel[p]);
	fputs("</g>\n</svg>\n", page.out);
	return page_close(&page);
}
