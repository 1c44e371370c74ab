/* demo_report - the demo's results as an HTML page. Layer: apps. Threads: one. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/html.h"
#include "apps/common/report_page.h"
#include "apps/demo/demo.h"

enum { PICTURES = 8, PICTURE_MAX = 256 << 10 };

static const struct demo_row *row_of(const struct demo *demo, enum app_carrier carrier,
				     const char *by)
{
	for (unsigned i = 0; i < demo->rows; i++)
		if (demo->row[i].carrier == carrier && demo->row[i].ok &&
		    !strcmp(demo->row[i].by, by))
			return &demo->row[i];
	return NULL;
}

static void write_tile(FILE *out, const char *big, const char *small)
{
	fputs("<div class=\"card\"><div class=\"big\">", out);
	page_text(out, big);
	fputs("</div><div class=\"soft\">", out);
	page_text(out, small);
	fputs("</div></div>\n", out);
}

/* Prints how many times as many images per second a way takes as by value. */
static void write_gain(FILE *out, const struct demo *demo, enum app_carrier carrier, const char *by,
		       const char *how)
{
	const struct demo_row *value = row_of(demo, carrier, "value");
	const struct demo_row *row = row_of(demo, carrier, by);
	char big[64], small[200], a[32], b[32];

	if (!value || !row || value->images_per_s <= 0)
		return;
	snprintf(big, sizeof(big), "%.1f\u00d7", row->images_per_s / value->images_per_s);
	snprintf(small, sizeof(small),
		 "images per second over %s %s: %.1f instead of %.1f by value; %s moved per image "
		 "instead of %s",
		 app_carrier_name(carrier), how, row->images_per_s, value->images_per_s,
		 page_number(a, PAGE_BYTES, row->bytes_moved),
		 page_number(b, PAGE_BYTES, value->bytes_moved));
	write_tile(out, big, small);
}

/* Prints the most important figures: the gain of each way, and what must not differ. */
static void write_tiles(FILE *out, const struct demo *demo)
{
	double identical = 0, images = 0, pages = 0;
	char big[96];

	for (unsigned i = 0; i < demo->rows; i++) {
		identical += demo->row[i].identical;
		images += demo->row[i].images;
		pages += demo->row[i].pages_used_after;
	}
	fputs("<div class=\"grid four\">\n", out);
	write_gain(out, demo, APP_SHM, "ref", "by reference");
	write_gain(out, demo, APP_UDP, "ref", "by reference");
	write_gain(out, demo, APP_SHM, "pool", "through a pool");
	snprintf(big, sizeof(big), "%.0f of %.0f", identical, images);
	write_tile(out, big,
		   "images with results byte for byte equal to the same codec calls made locally");
	snprintf(big, sizeof(big), "%.0f pages", pages);
	write_tile(out, big, "left at the memory node after all runs");
	fputs("</div>\n", out);
}

static void write_table(FILE *out, const struct demo *demo)
{
	char text[32];

	fputs("<h2>All figures</h2>\n<div class=\"card "
	      "scroll\"><table>\n<tr><th>Carrier</th><th>By</th>"
	      "<th>Moved per image</th><th>Median latency</th><th>Without codecs</th><th>Images "
	      "per second"
	      "</th><th>Identical</th><th>Pages after</th><th>Processes</th></tr>\n",
	      out);
	for (unsigned i = 0; i < demo->rows; i++) {
		const struct demo_row *row = &demo->row[i];

		fprintf(out, "<tr><td>%s</td><td><span class=\"dot %s\"></span>%s</td>",
			app_carrier_name(row->carrier), row->by, row->by);
		if (!row->ok) {
			fputs("<td colspan=\"7\">skipped: ", out);
			page_text(out, row->why);
			fputs("</td></tr>\n", out);
			continue;
		}
		fprintf(out,
			"<td>%s</td><td>%.2f ms</td><td>%.2f ms</td><td>%.1f</td><td>%.0f/%.0f</td>"
			"<td>%.0f</td><td>%.0f</td></tr>\n",
			page_number(text, PAGE_BYTES, row->bytes_moved), row->p50_ms,
			row->p50_ms_without_codec, row->images_per_s, row->identical, row->images,
			row->pages_used_after, row->processes);
	}
	fputs("</table></div>\n", out);
}

static void write_picture(FILE *out, const char *dir, const char *name)
{
	char path[512];
	void *bytes = malloc(PICTURE_MAX);
	FILE *in;
	size_t len = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	in = fopen(path, "r");
	if (in && bytes)
		len = fread(bytes, 1, PICTURE_MAX, in);
	if (len && len < PICTURE_MAX) {
		fputs("<img alt=\"Result ", out);
		page_text(out, name);
		fputs("\" src=\"data:image/jpeg;base64,", out);
		page_base64(out, bytes, len);
		fputs("\">\n", out);
	}
	if (in)
		fclose(in);
	free(bytes);
}

static int is_thumbnail(const struct dirent *e)
{
	return strstr(e->d_name, ".thumbnail.jpg") != NULL;
}

static void write_pictures(FILE *out, const struct demo *demo)
{
	struct dirent **entry;
	int n = scandir(demo->results, &entry, is_thumbnail, alphasort);

	if (n > 0)
		fputs("<h2>Some of the results</h2>\n<div class=\"shots\">\n", out);
	for (int i = 0; i < n; i++) {
		if (i < PICTURES)
			write_picture(out, demo->results, entry[i]->d_name);
		free(entry[i]);
	}
	if (n > 0)
		fputs("</div>\n", out);
	if (n >= 0)
		free(entry);
}

/* Draws the services: pixels pass through all of them by value, around them by reference. */
static void write_drawing(FILE *out)
{
	static const char *const name[] = {"client", "firewall", "balancer", "server", "worker"};
	enum { STEP = 80, WIDTH = 66 };

	fputs("<div class=\"card\"><svg viewBox=\"0 0 400 112\" role=\"img\" style=\"max-width:"
	      "480px\"><title>By value the pixels pass through every service; by reference they "
	      "stay in the client's memory, and the worker reads them there</title>",
	      out);
	for (int i = 0; i < 5; i++) {
		fprintf(
		    out,
		    "<rect class=\"rule\" x=\"%d\" y=\"20\" width=\"%d\" height=\"28\" rx=\"6\"/>"
		    "<text class=\"soft\" x=\"%d\" y=\"38\" text-anchor=\"middle\">%s</text>",
		    i * STEP + 7, WIDTH, i * STEP + 7 + WIDTH / 2, name[i]);
		if (i < 4)
			fprintf(out, "<path class=\"line value\" d=\"M%d 34h%d\"/>", i * STEP + 73,
				14);
	}
	fputs("<rect class=\"rule\" x=\"142\" y=\"74\" width=\"116\" height=\"28\" rx=\"6\"/>"
	      "<text class=\"soft\" x=\"200\" y=\"92\" text-anchor=\"middle\">by reference</text>"
	      "<path class=\"line ref\" d=\"M40 48V88H142M258 88H360V48\"/></svg></div>\n",
	      out);
}

static void write_intro(FILE *out, const struct demo *demo)
{
	const struct demo_row *row = demo->row;
	char bytes[32];

	for (unsigned i = 0; i < demo->rows; i++)
		if (demo->row[i].ok)
			row = &demo->row[i];
	fputs("<h1>Lend the pixels, do not send them</h1>\n<p><b>Lend</b> is a runtime for remote "
	      "procedure calls that passes big arguments by reference; <code>man lend</code> and "
	      "its README describe it.</p>\n",
	      out);
	write_drawing(out);
	fputs("<p>", out);
	fprintf(out,
		"%.0f photographs, %s of pixels each on average, go from a client through a "
		"firewall, a load balancer "
		"and one of two image servers to one of two workers that scale and encode them; "
		"the results come back "
		"the same way. By value every process passes the pixels on. By reference the "
		"pixels stay in the client's memory, 64 bytes travel, and the worker reads them "
		"there: in place over shm, in one transfer over a network. By pool the client "
		"stores them, once decoded, on a memory node whose pages the workers map. By auto "
		"the client "
		"chooses by measured costs.",
		row->images, page_number(bytes, PAGE_BYTES, row->pixel_bytes));
	fputs("</p>\n", out);
}

static void write_footer(FILE *out, const struct demo *demo)
{
	fputs("<h2>How it was measured</h2>\n<p class=\"soft\">Bytes moved: everything that all "
	      "processes and the memory node sent, headers and retransmissions included. Latency: "
	      "one image in flight, from the bytes of the file to the result in the client's "
	      "memory; without codecs: less the client's decoding and the worker's scaling and "
	      "encoding. Images per second: four in flight, pixels decoded before. Again: ",
	      out);
	fputs("<code>lend images --by ref --carrier udp ", out);
	page_text(out, demo->dir);
	fputs("</code> and <code>lend chain --sweep --size 4M --carrier udp</code>.</p>\n<p "
	      "class=\"soft\">",
	      out);
	report_page_machine(out);
	fprintf(out, " %.0f s.</p>\n", demo->seconds);
}

bool demo_report(const struct demo *demo, const char *path)
{
	struct page page;
	FILE *out;

	if (!page_open(&page, path))
		return false;
	out = page.out;
	report_page_begin(out, "Lend: the demo's report");
	write_intro(out, demo);
	write_tiles(out, demo);
	demo_bars(demo, out);
	demo_sweeps(demo, out);
	write_table(out, demo);
	write_pictures(out, demo);
	write_footer(out, demo);
	report_page_end(out);
	return page_close(&page);
}
