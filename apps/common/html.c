/* html - see html.h. */
#include "apps/common/html.h"

#include <unistd.h>

bool page_open(struct page *page, const char *path)
{
	snprintf(page->path, sizeof(page->path), "%s", path);
	snprintf(page->temp, sizeof(page->temp), "%s.tmp-%d", page->path, (int)getpid());
	page->out = fopen(page->temp, "w");
	return page->out;
}

bool page_close(struct page *page)
{
	bool bad = ferror(page->out) != 0;

	bad = fclose(page->out) != 0 || bad;
	if (!bad && rename(page->temp, page->path) == 0)
		return true;
	unlink(page->temp);
	return false;
}

void page_style(FILE *out)
{
	fputs(
	    ":root{color-scheme:light dark;--bg:#fbfaf8;--card:#fff;--ink:#1f2328;--soft:#656d76;"
	    "--rule:#e3e1dc}\n"
	    ".grey{color:#8a8a8a}.value{color:#d9722e}.ref{color:#2563c9}.auto{color:#12866f}"
	    ".pool{color:#8a4fbf}.gold{color:#a8820a}.reference{color:var(--soft)}\n"
	    "@media(prefers-color-scheme:dark){:root{--bg:#14171c;--card:#1d2128;--ink:#e8eaed;"
	    "--soft:#9aa4b0;--rule:#333a44}.value{color:#f0985a}.ref{color:#78a9ff}"
	    ".auto{color:#3fc3a6}.pool{color:#c79bf0}.gold{color:#d9b13c}}\n"
	    "svg text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
	    "fill:var(--ink)}svg .head{font-weight:600;font-size:14px}svg .soft{fill:var(--soft);"
	    "font-size:12px}rect,circle{fill:currentColor}svg .rule{stroke:var(--rule);fill:none}"
	    "svg .pale{opacity:.35}path.line{stroke:currentColor;fill:none;stroke-width:2;"
	    "stroke-linejoin:round}path.reference{stroke-dasharray:5 3}\n",
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

const char *page_number(char text[32], enum page_unit unit, double value)
{
	static const struct {
		double limit, step; /* from limit on, the next unit is used */
		const char *name[6];
	} units[] = {[PAGE_COUNT] = {9999.5, 1000, {"", " k", " M", " G"}},
		     [PAGE_PERCENT] = {0, 0, {" %"}},
		     [PAGE_US] = {999.5, 1000, {" us", " ms", " s"}},
		     [PAGE_BYTES] = {999.5, 1000, {" B", " kB", " MB", " GB", " TB"}},
		     [PAGE_SIZE] = {1023.5, 1024, {" B", " KiB", " MiB", " GiB"}},
		     [PAGE_RATE] = {999.5, 1000, {" B/s", " kB/s", " MB/s", " GB/s"}}};
	int i = 0;

	for (; value >= units[unit].limit && units[unit].name[i + 1]; i++)
		value /= units[unit].step;
	snprintf(text, 32, "%.*g%s", value >= 999.5 ? 4 : 3, value, units[unit].name[i]);
	return text;
}
