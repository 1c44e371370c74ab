/* html - see html.h. */
#include "apps/common/html.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/options.h"

void page_open(struct page *page, const char *path)
{
	snprintf(page->path, sizeof(page->path), "%s", path);
	snprintf(page->temp, sizeof(page->temp), "%s.tmp-%d", page->path, (int)getpid());
	page->out = fopen(page->temp, "w");
	if (!page->out)
		app_die("%s: %s; name a file that can be written", path, strerror(errno));
}

void page_close(struct page *page)
{
	bool bad = ferror(page->out) != 0;

	bad = fclose(page->out) != 0 || bad;
	if (!bad && rename(page->temp, page->path) == 0)
		return;
	unlink(page->temp);
	app_die("%s: %s", page->path, strerror(errno));
}

void page_style(FILE *out)
{
	fputs(
	    ":root{color-scheme:light dark;--bg:#fbfaf8;--card:#fff;--ink:#1f2328;--soft:#656d76;"
	    "--rule:#e3e1dc;--value:#d9722e;--ref:#2563c9;--auto:#12866f;--pool:#8a4fbf}\n"
	    "@media(prefers-color-scheme:dark){:root{--bg:#14171c;--card:#1d2128;--ink:#e8eaed;"
	    "--soft:#9aa4b0;--rule:#333a44;--value:#f0985a;--ref:#78a9ff;--auto:#3fc3a6;--pool:#"
	    "c79bf0}}\n"
	    "svg text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
	    "fill:var(--ink)}svg .head{font-weight:600;font-size:14px}svg .soft{fill:var(--soft);"
	    "font-size:12px}svg .rule{stroke:var(--rule);fill:none}svg .pale{opacity:.35}\n"
	    ".value{fill:var(--value)}.ref{fill:var(--ref)}.auto{fill:var(--auto)}.pool{fill:var(--"
	    "pool)}"
	    "path.value,path.ref,path.auto{fill:none;stroke-width:2.5;stroke-linejoin:round}"
	    "path.value{stroke:var(--value)}path.ref{stroke:var(--ref)}path.auto{stroke:var(--auto)"
	    "}\n",
	    out);
}

void page_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '"')
			fputs("&quot;", out);
		else
			putc(*text, out);
	}
}

void page_base64(FILE *out, const void *data, size_t len)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *in = data;

	for (size_t i = 0; i < len; i += 3) {
		uint32_t word = (uint32_t)in[i] << 16;

		word |= i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0;
		word |= i + 2 < len ? (uint32_t)in[i + 2] : 0;
		putc(digits[word >> 18], out);
		putc(digits[word >> 12 & 63], out);
		putc(i + 1 < len ? digits[word >> 6 & 63] : '=', out);
		putc(i + 2 < len ? digits[word & 63] : '=', out);
	}
}

/* Three digits and a unit. */
static const char *format_scaled(char text[32], double value, double step,
				 const char *const units[])
{
	int i = 0;

	for (; value >= step - 0.5 && units[i + 1]; i++)
		value /= step;
	snprintf(text, 32, "%.3g%s", value, units[i]);
	return text;
}

const char *page_bytes(char text[32], double bytes)
{
	static const char *const units[] = {" B", " kB", " MB", " GB", " TB", NULL};

	return format_scaled(text, bytes, 1000, units);
}

const char *page_count(char text[32], double count)
{
	static const char *const units[] = {"", " k", " M", " G", NULL};

	return format_scaled(text, count, 1000, units);
}

enum { HEAD = 28, BAR = 20, STEP = 24, GROUP = 12, LABEL = 124, TEXT = 108 };

double page_bars_height(const struct page_bar *bar, unsigned n)
{
	double height = HEAD;

	for (unsigned i = 0; i < n; i++)
		height += STEP + (bar[i].first && i ? GROUP : 0);
	return height;
}

static void svg_begin(FILE *out, double y, double height, const char *title)
{
	static unsigned id;

	fprintf(out,
		"<svg y=\"%.0f\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
		"aria-labelledby=\"chart%u\"><title id=\"chart%u\">",
		y, PAGE_WIDTH, height, PAGE_WIDTH, height, id, id);
	id++;
	page_text(out, title);
	fputs("</title>\n<text class=\"head\" x=\"0\" y=\"15\">", out);
	page_text(out, title);
	fputs("</text>\n", out);
}

static void draw_rect(FILE *out, const struct page_bar *bar, double x, double y, double width,
		      bool pale)
{
	fprintf(
	    out,
	    "<rect class=\"%s%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"3\"/>",
	    bar->css, pale ? " pale" : "", x, y, width < 1.5 ? 1.5 : width, BAR);
}

void page_bars(FILE *out, double y, const char *title, const struct page_bar *bar, unsigned n)
{
	double most = 1e-12, at = HEAD, room = PAGE_WIDTH - LABEL - TEXT;

	for (unsigned i = 0; i < n; i++)
		most = fmax(most, bar[i].value + bar[i].pale);
	svg_begin(out, y, page_bars_height(bar, n), title);
	for (unsigned i = 0; i < n; i++) {
		double solid = room * bar[i].value / most, pale = room * bar[i].pale / most;

		at += bar[i].first && i ? GROUP : 0;
		fprintf(out, "<g><text class=\"soft\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
			LABEL - 8, at + 14);
		page_text(out, bar[i].label);
		fputs("</text>", out);
		if (pale > 0)
			draw_rect(out, &bar[i], LABEL, at, solid + pale, true);
		draw_rect(out, &bar[i], LABEL, at, solid, false);
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">", LABEL + fmax(solid + pale, 1.5) + 6,
			at + 15);
		page_text(out, bar[i].text);
		fputs("</text></g>\n", out);
		at += STEP;
	}
	fputs("</svg>\n", out);
}

/* The plot's frame, in the chart's units. */
enum { LEFT = 52, RIGHT = 10, TOP = 52, BOTTOM = 26 };

struct axes {
	double x_min, x_max, y_min, y_max; /* logarithms to base 10 */
};

static struct axes axes_of(const struct page_line *line, unsigned n)
{
	struct axes axes = {1e9, -1e9, 1e9, -1e9};

	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < line[i].n; k++) {
			axes.x_min = fmin(axes.x_min, log10(line[i].x[k]));
			axes.x_max = fmax(axes.x_max, log10(line[i].x[k]));
			axes.y_min = fmin(axes.y_min, floor(log10(fmax(line[i].y[k], 1e-3))));
			axes.y_max = fmax(axes.y_max, ceil(log10(fmax(line[i].y[k], 1e-3))));
		}
	if (axes.x_max <= axes.x_min)
		axes.x_max = axes.x_min + 1;
	if (axes.y_max <= axes.y_min)
		axes.y_max = axes.y_min + 1;
	return axes;
}

static double x_of(const struct axes *axes, double x)
{
	return LEFT +
	       (log10(x) - axes->x_min) / (axes->x_max - axes->x_min) * (PAGE_WIDTH - LEFT - RIGHT);
}

static double y_of(const struct axes *axes, double y)
{
	return PAGE_LINES_HEIGHT - BOTTOM -
	       (log10(fmax(y, 1e-3)) - axes->y_min) / (axes->y_max - axes->y_min) *
		   (PAGE_LINES_HEIGHT - TOP - BOTTOM);
}

static void draw_grid(FILE *out, const struct axes *axes)
{
	char text[32];

	for (int e = (int)axes->y_min; e <= (int)axes->y_max; e++) {
		double y = y_of(axes, pow(10, e));

		fprintf(out,
			"<path class=\"rule\" d=\"M%d %.1fH%d\"/><text class=\"soft\" x=\"%d\" "
			"y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
			LEFT, y, PAGE_WIDTH - RIGHT, LEFT - 6, y + 4, page_count(text, pow(10, e)));
	}
	for (double bytes = 64; log10(bytes) <= axes->x_max + 1e-9; bytes *= 16) {
		bool mega = bytes >= 1 << 20, kilo = bytes >= 1 << 10;

		if (log10(bytes) < axes->x_min - 1e-9)
			continue;
		fprintf(out,
			"<text class=\"soft\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f "
			"%s</text>",
			fmin(x_of(axes, bytes), PAGE_WIDTH - 22), PAGE_LINES_HEIGHT - 6,
			bytes / (mega   ? 1 << 20
				 : kilo ? 1 << 10
					: 1),
			mega   ? "MiB"
			: kilo ? "KiB"
			       : "B");
	}
}

static void draw_line(FILE *out, const struct axes *axes, const char *unit,
		      const struct page_line *line)
{
	fprintf(out, "<path class=\"%s\" d=\"", line->css);
	for (unsigned k = 0; k < line->n; k++)
		fprintf(out, "%c%.1f %.1f", k ? 'L' : 'M', x_of(axes, line->x[k]),
			y_of(axes, line->y[k]));
	fputs("\"/>\n", out);
	for (unsigned k = 0; k < line->n; k++) {
		char x[32], y[32];

		fprintf(
		    out,
		    "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s, %s: %s %s"
		    "</title></circle>",
		    line->css, x_of(axes, line->x[k]), y_of(axes, line->y[k]), line->label,
		    page_bytes(x, line->x[k]), page_count(y, line->y[k]), unit);
	}
}

void page_lines(FILE *out, const char *title, const char *unit, const struct page_line *line,
		unsigned n)
{
	struct axes axes = axes_of(line, n);
	double x = LEFT;

	svg_begin(out, 0, PAGE_LINES_HEIGHT, title);
	for (unsigned i = 0; i < n; i++) {
		fprintf(
		    out,
		    "<rect class=\"%s\" x=\"%.0f\" y=\"27\" width=\"12\" height=\"12\" rx=\"3\"/>"
		    "<text class=\"soft\" x=\"%.0f\" y=\"37\">",
		    line[i].css, x, x + 17);
		page_text(out, line[i].label);
		fputs("</text>\n", out);
		x += 34 + 7.0 * (double)strlen(line[i].label);
	}
	draw_grid(out, &axes);
	for (unsigned i = 0; i < n; i++)
		draw_line(out, &axes, unit, &line[i]);
	fputs("</svg>\n", out);
}

void page_picture(struct page *page, const char *path, int width, double height)
{
	page_open(page, path);
	fprintf(page->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"viewBox=\"0 0 %d %.0f\">\n<style>",
		width, height, width, height);
	page_style(page->out);
	fprintf(
	    page->out,
	    "</style>\n<rect width=\"%d\" height=\"%.0f\" rx=\"12\" style=\"fill:var(--bg)\"/>\n",
	    width, height);
}

void page_plot(const char *path, const char *title, const char *unit, const struct page_line *line,
	       unsigned n)
{
	struct page page;

	page_picture(&page, path, 2 * PAGE_MARGIN + PAGE_WIDTH,
		     2 * PAGE_MARGIN + PAGE_LINES_HEIGHT);
	fprintf(page.out, "<g transform=\"translate(%d %d)\">\n", PAGE_MARGIN, PAGE_MARGIN);
	page_lines(page.out, title, unit, line, n);
	fputs("</g>\n</svg>\n", page.out);
	page_close(&page);
}
