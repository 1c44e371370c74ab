/* top_show - prints the statistics as a table, or as a JSON object. Layer: apps. Threads: one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/tools/top.h"

enum { SHOWN = 40 }; /* sessions shown per endpoint */

/* Returns the rate of a counter per second between the last two replies. */
static double counter_rate(const struct top_server *s, uint64_t now, uint64_t before)
{
	lend_ns passed = s->now.head.now - s->before.head.now;

	return s->before.head.size && passed ? (double)(now - before) * 1e9 / (double)passed : 0;
}

static const struct lend_session_stats *earlier_session(const struct top_server *s, uint64_t id)
{
	for (uint32_t i = 0; i < s->before.n; i++)
		if (s->before.session[i].session.id == id)
			return &s->before.session[i];
	return NULL;
}

static double tx_rate(const struct top_server *s, const struct lend_session_stats *l)
{
	const struct lend_session_stats *b = earlier_session(s, l->session.id);

	return b ? counter_rate(s, l->tx, b->tx) : 0;
}

static double rx_rate(const struct top_server *s, const struct lend_session_stats *l)
{
	const struct lend_session_stats *b = earlier_session(s, l->session.id);

	return b && l->rx >= b->rx ? counter_rate(s, l->rx, b->rx) : 0;
}

static void by_class(FILE *out, const char *key, const void *values, bool wide)
{
	fprintf(out, ",\"%s\":[", key);
	for (int c = 0; c < 8; c++)
		fprintf(out, "%s%llu", c ? "," : "",
			wide ? (unsigned long long)((const uint64_t *)values)[c]
			     : ((const uint32_t *)values)[c]);
	fputs("]", out);
}

/* Prints an address. It comes from a peer, so characters that could end a string or a line are
 * replaced. */
static void print_safe(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(*text == '"' || *text == '\\' || *text < ' ' || *text > '~' ? '?' : *text,
		      out);
}

static void json_session(FILE *out, const struct top_server *s, const struct lend_session_stats *l)
{
	fprintf(out, "{\"session\":%llu,\"peer\":\"", (unsigned long long)l->session.id);
	print_safe(out, l->peer);
	fprintf(out,
		"\",\"up\":%s,\"tx_per_s\":%.1f,\"rx_per_s\":%.1f,\"rtt_us\":%.2f,"
		"\"rtt_var_us\":%.2f,\"gap_us\":%.2f,\"in_flight\":%u,\"window\":%u,"
		"\"credit\":%u,\"granted\":%llu,\"level\":%u,\"suite\":%u,\"forged\":%llu,\"key_"
		"age_s\":%.3f",
		l->up ? "true" : "false", tx_rate(s, l), rx_rate(s, l), (double)l->rtt / 1e3,
		(double)l->rtt_var / 1e3, (double)l->gap / 1e3, l->in_flight, l->window, l->credit,
		(unsigned long long)l->granted, l->level, l->suite, (unsigned long long)l->forged,
		(double)l->key_age / 1e9);
	by_class(out, "calls", l->calls, false);
	by_class(out, "served", l->served, false);
	by_class(out, "queued", l->queued, true);
	fputs("}", out);
}

static void print_json(const struct top *top)
{
	FILE *out = stdout;
	const char *between = "";

	fputs("{\"endpoints\":[", out);
	for (unsigned i = 0; i < top->n; i++) {
		const struct top_server *s = &top->server[i];
		const struct lend_stats *a = &s->now.head.stats, *b = &s->before.head.stats;
		const struct lend_ref_stats *r = &s->now.head.refs;

		if (!s->now.head.size)
			continue;
		fprintf(out, "%s{\"address\":\"", between);
		print_safe(out, s->address);
		fprintf(out,
			"\",\"pid\":%llu,\"sessions_up\":%llu,\"requests_per_s\":%.1f,"
			"\"calls_per_s\":%.1f,\"tx_bytes_per_s\":%.0f,\"rx_bytes_per_s\":%.0f,"
			"\"refs_in_place\":%llu,\"refs_copied\":%llu,\"refs_by_value\":%llu,"
			"\"refs_expired\":%llu,\"refs_relayed_bytes\":%llu,"
			"\"sessions\":[",
			(unsigned long long)s->now.head.pid, (unsigned long long)a->sessions,
			counter_rate(s, a->requests, b->requests),
			counter_rate(s, a->calls_ended, b->calls_ended),
			counter_rate(s, a->tx_bytes, b->tx_bytes),
			counter_rate(s, a->rx_bytes, b->rx_bytes), (unsigned long long)r->in_place,
			(unsigned long long)r->copied, (unsigned long long)r->by_value,
			(unsigned long long)r->expired, (unsigned long long)r->relayed);
		for (uint32_t n = 0; n < s->now.n; n++) {
			fputs(n ? "," : "", out);
			json_session(out, s, &s->now.session[n]);
		}
		fputs("]}", out);
		between = ",";
	}
	fputs("]}\n", out);
}

static void format_count(char text[16], double n)
{
	static const char unit[] = " kMGT";
	int u = 0;

	for (; n >= 9999.5 && u < 4; u++)
		n /= 1000;
	snprintf(text, 16, u ? "%.0f%c" : "%.0f", n, unit[u]);
}

static void print_cell(double n)
{
	char text[16];

	format_count(text, n);
	printf(" %6s", text);
}

/* Prints what protects a session's datagrams. */
static void print_level(const struct lend_session_stats *l)
{
	static const char *const suites[] = {"clear", "aes", "chacha"};
	const char *suite = l->suite < 3 ? suites[l->suite] : "?";

	printf("  %s%s", suite, l->level == 1 ? " (tag only)" : "");
	if (l->key_age)
		printf(", key %.0f s old", (double)l->key_age / 1e9);
	if (l->forged)
		printf(", %llu forged", (unsigned long long)l->forged);
}

static void print_session(const struct top_server *s, const struct lend_session_stats *l)
{
	printf("  %-28.28s", l->peer[0] ? l->peer : "?");
	print_cell(rx_rate(s, l));
	print_cell(tx_rate(s, l));
	if (l->rtt)
		printf(" %8.1f", (double)l->rtt / 1e3);
	else
		printf(" %8s", "-");
	printf(" %3u/%-3u", l->in_flight, l->window);
	print_cell(l->credit);
	print_cell((double)l->granted);
	fputs(" ", stdout);
	for (int c = 0; c < 8; c++)
		printf(" %u+%u", l->calls[c], l->served[c]);
	fputs(" ", stdout);
	for (int c = 0; c < 8; c++)
		if (l->queued[c]) {
			char text[16];

			format_count(text, (double)l->queued[c]);
			printf(" %d:%s", c + 1, text);
		}
	print_level(l);
	fputs("\n", stdout);
}

static void print_server(const struct top_server *s)
{
	const struct lend_ref_stats *r = &s->now.head.refs;
	const struct lend_stats *a = &s->now.head.stats, *b = &s->before.head.stats;

	printf("%s  pid %llu  sessions %llu  served %.0f/s  called %.0f/s  in %.2f MB/s  out %.2f "
	       "MB/s\n",
	       s->address, (unsigned long long)s->now.head.pid, (unsigned long long)a->sessions,
	       counter_rate(s, a->requests, b->requests),
	       counter_rate(s, a->calls_ended, b->calls_ended),
	       counter_rate(s, a->rx_bytes, b->rx_bytes) / 1e6,
	       counter_rate(s, a->tx_bytes, b->tx_bytes) / 1e6);
	if (r->in_place || r->copied || r->by_value || r->expired || r->relayed)
		printf("  references: %llu in place, %llu copied, %llu sent by value, %llu "
		       "expired, %llu bytes relayed\n",
		       (unsigned long long)r->in_place, (unsigned long long)r->copied,
		       (unsigned long long)r->by_value, (unsigned long long)r->expired,
		       (unsigned long long)r->relayed);
	printf("  %-28s %6s %6s %8s %7s %6s %6s  %-32s %s\n", "PEER", "RX/s", "TX/s", "RTT us",
	       "FLIGHT", "CREDIT", "GRANT", "CALLS+SERVED by priority", "QUEUED bytes");
	for (uint32_t i = 0; i < s->now.n && i < SHOWN; i++)
		print_session(s, &s->now.session[i]);
	if (s->now.n > SHOWN)
		printf("  and %u more; --json has all\n", s->now.n - SHOWN);
}

void top_show(const struct top *top)
{
	bool any = false;

	if (top->json) {
		print_json(top);
	} else {
		if (!top->once && isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		for (unsigned i = 0; i < top->n; i++)
			if (top->server[i].now.head.size) {
				print_server(&top->server[i]);
				any = true;
			}
		if (!any)
			puts("no endpoint answers; name one: lend top shm:NAME");
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		app_die("stdout does not take it: %s", strerror(errno));
}
