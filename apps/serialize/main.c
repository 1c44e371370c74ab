/* serialize - encodes and decodes one message by several libraries, in turns.
 * Layer: apps. Threads: one. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/common/samples.h"
#include "apps/common/spawn.h"
#include "apps/serialize/coder.h"

enum shape_name { ITEM, LIST, NESTED };
enum { CODERS = 4, ROUNDS_MAX = 199, LIST_ITEMS = 100, NESTED_LEVELS = 8, ROUND_NS = 200000 };
static const char *const names[] = {"item", "list", "nested", NULL};

struct result {
	const struct coder *coder;
	void *state;
	uint8_t *bytes; /* encoded */
	size_t len;
	double encode_ns[ROUNDS_MAX], decode_ns[ROUNDS_MAX];
	double instructions; /* one encode and one decode; 0: not counted */
};

static struct {
	enum shape_name shape;
	uint64_t size, in_place;
	lend_ns time;
	bool json;
	struct shape of;
	unsigned n, rounds, repeats;
	struct result result[CODERS];
	size_t check_bytes;
	unsigned wrong;
} bench = {.size = UINT64_MAX, .time = 1000000000, .in_place = 4096};

#define FIELD_OF typeof(bench)
static const struct lend_option options[] = {
    OPT_CHOICE(FIELD_OF, shape, "shape", "SHAPE", names,
	       "item: one (default); list: 100 items; nested: 8 levels with an item each"),
    OPT_SIZE(FIELD_OF, size, "size", 0, UINT64_C(1) << 26,
	     "Bytes of each item's data (1K; of a list 16)"),
    OPT_SIZE(FIELD_OF, in_place, "in-place", 1, UINT64_C(1) << 40,
	     "Bytes from which lend does not copy a value (4K)"),
    OPT_TIME(FIELD_OF, time, "seconds", "How long to measure (1)", .key = 't'),
    OPT_JSON(FIELD_OF, json),
    {.name = NULL}};

void item_values_of(struct item_values *v, unsigned i)
{
	v->id = 1000003 * ((int64_t)i + 1);
	v->price = 1.25 * i + 0.5;
	v->count = (int32_t)(i * 37 % 10000 + 1);
	(void)snprintf(v->name, sizeof(v->name), "item number %u", i);
}

size_t item_check(const struct shape *shape, unsigned i, int64_t id, double price, int32_t count,
		  const char *name, const uint8_t *data, size_t len)
{
	struct item_values v;

	item_values_of(&v, i);
	if (id != v.id || price < v.price || price > v.price || count != v.count ||
	    strcmp(name, v.name) != 0 || len != shape->len ||
	    (len && memcmp(data, shape->payload, len)))
		return 0;
	return strlen(name) + len;
}

static void add_coder(const struct coder *coder)
{
	struct result *r = &bench.result[bench.n];

	if (!coder)
		return;
	bench.n++;
	r->coder = coder;
	r->state = coder->open(&bench.of);
	r->len = coder->encode(r->state);
	r->bytes = malloc(r->len ? r->len : 1);
	if (!r->len || !r->bytes)
		app_die("%s does not encode the message", coder->name);
	coder->gather(r->state, r->bytes);
}

/* Compares the decoded values with the shape, and protobuf's bytes with each other. */
static void check_coder(struct result *r)
{
	size_t n = r->coder->decode(r->state, r->bytes, r->len) ? r->coder->check(r->state) : 0;
	bool is_protobuf = r->coder != &coder_flatbuffers;

	bench.wrong += !n || r->coder->encode(r->state) != r->len;
	bench.wrong += is_protobuf && (r->len != bench.result[0].len ||
				       memcmp(r->bytes, bench.result[0].bytes, r->len) != 0);
	bench.check_bytes += n;
}

static double time_encode(const struct result *r)
{
	lend_ns began = app_cpu_now();

	for (unsigned i = 0; i < bench.repeats; i++)
		bench.wrong += r->coder->encode(r->state) != r->len;
	return (double)(app_cpu_now() - began) / bench.repeats;
}

static double time_decode(const struct result *r)
{
	lend_ns began = app_cpu_now();

	for (unsigned i = 0; i < bench.repeats; i++)
		bench.wrong += !r->coder->decode(r->state, r->bytes, r->len);
	return (double)(app_cpu_now() - began) / bench.repeats;
}

static void count_instructions(struct result *r)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_HW_INSTRUCTIONS,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	uint64_t before, after;

	if (fd < 0)
		return;
	if (read(fd, &before, sizeof(before)) == sizeof(before)) {
		(void)time_encode(r);
		(void)time_decode(r);
		if (read(fd, &after, sizeof(after)) == sizeof(after))
			r->instructions = (double)(after - before) / bench.repeats;
	}
	close(fd);
}

static void measure_coders(void)
{
	lend_ns began = app_now();

	bench.repeats = 1;
	while (time_encode(&bench.result[1]) * bench.repeats < ROUND_NS && bench.repeats < 1 << 16)
		bench.repeats *= 2;
	while (bench.rounds < ROUNDS_MAX && app_now() < began + bench.time) {
		for (unsigned i = 0; i < bench.n; i++) {
			bench.result[i].encode_ns[bench.rounds] = time_encode(&bench.result[i]);
			bench.result[i].decode_ns[bench.rounds] = time_decode(&bench.result[i]);
		}
		bench.rounds++;
		app_progress(began, (double)(app_now() - began), (double)bench.time);
	}
	for (unsigned i = 0; i < bench.n; i++)
		count_instructions(&bench.result[i]);
}

/* Returns the median ratio of lend's rounds to another coder's. */
static double ratio_to(const double *lend, const double *other)
{
	double ratio[ROUNDS_MAX];

	for (unsigned i = 0; i < bench.rounds; i++)
		ratio[i] = lend[i] / other[i];
	return app_median(ratio, bench.rounds);
}

static void report_coder(struct app_report *r, const struct result *of)
{
	char prefix[32];

	(void)snprintf(prefix, sizeof(prefix), "%s_", of->coder->name);
	r->prefix = prefix;
	app_report_num(r, "encode_ns", app_median(of->encode_ns, bench.rounds), 1,
		       "CPU time, median round");
	app_report_num(r, "decode_ns", app_median(of->decode_ns, bench.rounds), 1,
		       of->coder == &coder_flatbuffers ? "to verify it and read the scalars"
						       : "CPU time, median round");
	if (of->instructions > 0)
		app_report_num(r, "instructions", of->instructions, 0, "one encode and decode");
	else
		app_report_null(r, "instructions", "not countable here");
	app_report_int(r, "bytes", of->len, "encoded");
	if (of->coder != &coder_lend) {
		app_report_num(r, "encode_ratio",
			       ratio_to(bench.result[0].encode_ns, of->encode_ns), 3,
			       "lend's time over this one's");
		app_report_num(r, "decode_ratio",
			       ratio_to(bench.result[0].decode_ns, of->decode_ns), 3,
			       "lend's time over this one's");
	}
	r->prefix = "";
}

static void write_report(void)
{
	struct app_report r;

	app_report_begin(&r, bench.json, "serialize: one message, several libraries");
	for (unsigned i = 0; i < bench.n; i++)
		report_coder(&r, &bench.result[i]);
	app_report_int(&r, "check_bytes", bench.check_bytes, "decoded as they were, in all coders");
	app_report_int(&r, "wrong", bench.wrong, "encodings or values that differ");
	app_report_text(&r, "shape", names[bench.shape], "");
	app_report_int(&r, "size", bench.of.len, "bytes of each item's data");
	app_report_int(&r, "in_place", bench.of.in_place, "bytes from which lend does not copy");
	app_report_int(&r, "rounds", bench.rounds, "measured, in turns");
	app_report_end(&r);
}

static const char doc[] =
    "Time to encode and to decode one message by lend's encoder for protobuf-c's structures, "
    "protobuf-c, protobuf C++ and FlatBuffers, in turns.\v"
    "lend and protobuf write the same bytes. lend leaves values of --in-place bytes where they "
    "are, as segments that a call sends without a copy, and decodes bytes where they are. protobuf "
    "C++ reuses its message, FlatBuffers its builder.\n\n"
    "  lend bench serialize --shape list\n"
    "  lend bench serialize --size 64K --json";

int main(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .doc = doc};
	uint8_t *payload;

	lend_cli_name_set("lend bench ", "serialize");
	app_options_read(&syntax, argc, argv, &bench);
	app_pin(app_cpu(0));
	if (bench.size == UINT64_MAX)
		bench.size = bench.shape == LIST ? 16 : 1024;
	payload = malloc(bench.size + 1);
	if (!payload)
		app_die("no memory for the message; use a smaller --size");
	for (uint64_t i = 0; i < bench.size; i++)
		payload[i] = (uint8_t)(i * 31 + 7);
	bench.of = (struct shape){.levels = bench.shape == NESTED ? NESTED_LEVELS : 1,
				  .items = bench.shape == LIST ? LIST_ITEMS : 1,
				  .payload = payload,
				  .len = bench.size,
				  .in_place = bench.in_place};
	add_coder(&coder_lend);
	add_coder(&coder_protobuf_c);
	add_coder(&coder_protobuf_cxx);
	add_coder(&coder_flatbuffers);
	for (unsigned i = 0; i < bench.n; i++)
		check_coder(&bench.result[i]);
	measure_coders();
	write_report();
	for (unsigned i = 0; i < bench.n; i++) {
		bench.result[i].coder->close(bench.result[i].state);
		free(bench.result[i].bytes);
	}
	free(payload);
	return bench.wrong ? APP_EXIT_FAILED : APP_EXIT_OK;
}
