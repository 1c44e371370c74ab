/* demo_charts - the demo's charts, in the report and as a separate picture.
 * Layer: apps. Threads: one. */
#include <math.h>
#include <stdio.h>

#include "apps/common/chart.h"
#include "apps/demo/demo.h"

enum { BARS_MAX = DEMO_ROWS };

enum what { MOVED, LATENCY, RATE, WHATS };

static const char *const titles[WHATS] = {
    [MOVED] = "Bytes moved per image",
    [LATENCY] = "Median latency, pale: JPEG codecs",
    [RATE] = "Images per second, four under way",
};

/* Fills in one kind of bars for the rows that ran; returns their number. */
static unsigned bars_of(const struct demo *demo, enum what what, struct chart_bar bar[BARS_MAX])
{
	unsigned n = 0;
	char text[32];

	for (unsigned i = 0; i < demo->rows; i++) {
		const struct demo_row *row = &demo->row[i];
		struct chart_bar *b = &bar[n];

		if (!row->ok)
			continue;
		*b = (struct chart_bar){.css = row->by,
					.first = !n || row->carrier != demo->row[i - 1].carrier};
		snprintf(b->label, sizeof(b->label), "%s, %s", app_carrier_name(row->carrier),
			 row->by);
		if (what == MOVED) {
			b->value = row->bytes_moved;
			snprintf(b->text, sizeof(b->text), "%s",
				 page_number(text, PAGE_BYTES, b->value));
		} else if (what == LATENCY) {
			b->value = row->p50_ms_without_codec;
			b->pale = fmax(row->p50_ms - row->p50_ms_without_codec, 0);
			snprintf(b->text, sizeof(b->text), "%.3g of %.3g ms", b->value,
				 row->p50_ms);
		} else {
			b->value = row->images_per_s;
			snprintf(b->text, sizeof(b->text), "%.1f", b->value);
		}
		n++;
	}
	return n;
}

void demo_bars(const struct demo *demo, FILE *out)
{
	struct chart_bar bar[BARS_MAX];

	fputs("<h2>Side by side</h2>\n<div class=\"grid\">\n", out);
	for (int what = 0; what < WHATS; what++) {
		unsigned n = bars_of(demo, (enum what)what, bar);

		fputs("<div class=\"card\">\n", out);
		chart_bars(out, 0, titles[what], bar, n);
		fputs("</div>\n", out);
	}
	fputs("</div>\n", out);
}

/* Returns the smallest size from which on by reference was always faster; 0 if it was not faster at
 * the largest size. */
static double wins_from(const struct demo_sweep *sweep)
{
	double size = 0;

	for (unsigned i = sweep->n; i-- > 0 && sweep->ref[i] > sweep->value[i];)
		size = sweep->size[i];
	return size;
}

void demo_sweeps(const struct demo *demo, FILE *out)
{
	if (!demo->sweeps)
		return;
	fputs("<h2>A chain of five services, by size of the argument</h2>\n"
	      "<p>Calls per second through five processes; the last one reads every byte. Small "
	      "arguments are better sent by value, large ones by reference.</p>\n<div "
	      "class=\"grid\">\n",
	      out);
	for (unsigned i = 0; i < demo->sweeps; i++) {
		const struct demo_sweep *s = &demo->sweep[i];
		char title[96];
		const struct chart chart = {
		    title,
		    "bytes of the argument",
		    .x = {PAGE_SIZE, .log = true},
		    .y = {PAGE_COUNT, .log = true},
		    .line = {{"by value", s->size, s->value, s->n, CHART_VALUE},
			     {"by reference", s->size, s->ref, s->n, CHART_REF}},
		    .lines = 2};

		fputs("<div class=\"card\">\n", out);
		snprintf(title, sizeof(title), "Calls per second over %s",
			 app_carrier_name(s->carrier));
		if (s->ok && s->n)
			chart_lines(out, 0, CHART_NARROW, &chart);
		fputs("<div class=\"soft\">", out);
		if (!s->ok)
			page_text(out, s->why);
		else if (wins_from(s) > 0)
			fprintf(out, "By reference is faster from %.0f KiB on.",
				wins_from(s) / 1024);
		else
			fputs("By value is faster at all sizes.", out);
		fputs("</div></div>\n", out);
	}
	fputs("</div>\n", out);
}

bool demo_picture(const struct demo *demo, const char *path)
{
	enum { GAP = 28, MARGIN = CHART_MARGIN, STRIDE = CHART_NARROW + GAP };
	struct chart_bar bar[BARS_MAX];
	struct page page;

	if (!chart_open(&page, path, WHATS * STRIDE - GAP,
			chart_bars_height(bar, bars_of(demo, MOVED, bar))))
		return false;
	for (int what = 0; what < WHATS; what++) {
		unsigned n = bars_of(demo, (enum what)what, bar);

		fprintf(page.out, "<g transform=\"translate(%d 0)\">\n", MARGIN + what * STRIDE);
		chart_bars(page.out, MARGIN, titles[what], bar, n);
		fputs("</g>\n", page.out);
	}
	fputs("</svg>\n", page.out);
	return page_close(&page);
}
