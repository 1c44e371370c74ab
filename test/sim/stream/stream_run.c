/* stream_run - the command `stream`: two ends, the calls between them, and the oracles. Layer:
 * test/sim. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/option_table.h"
#include "sim/command.h"
#include "sim/sim_args.h"
#include "sim/stream/stream_run.h"
#include "stream/duplex.h"
#include "util/bits.h"
#include "util/rng.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
enum { ENDS = 2, OPENER = 0, SERVER = 1, MESSAGES = 64, STEPS_MAX = 100000, RUNS_MANY = 1000 };

/* A call under way: its request, then its reply. */
struct flight {
	bool used, replied;
	uint32_t len;
	struct lend_note note;
	lend_ns at; /* when it arrives */
	enum lend_call_result result;
	uint64_t taken;
};

struct end {
	struct lend_duplex d;
	struct flight flight[LEND_STREAM_CALLS];
	uint32_t len[MESSAGES];  /* of its messages */
	uint32_t wants, written; /* messages to write in all; so far */
	uint32_t read;
	uint32_t reads_from; /* step from which on it reads */
	bool eof;
};

static struct {
	uint64_t seed;
	struct lend_rng rng;
	lend_ns now, opened_at, status_at; /* status_at: the opener learns the end; LEND_NEVER */
	lend_ns gone_at;                   /* the other end learns a cancel or death */
	uint32_t step, cancel_at, death_at, end_at; /* steps; UINT32_MAX: never */
	uint32_t again_ppm, late_ppm;
	lend_ns jitter;
	bool answered, cancelled, dead, over;
	struct end end[ENDS];
} run;

#define STREAM_SUMS(X)                                                                             \
	X(runs, "runs")                                                                            \
	X(messages, "messages read")                                                               \
	X(repeats, "calls made again")                                                             \
	X(forged, "forged notes refused")                                                          \
	X(copies, "messages that arrived twice")                                                   \
	X(gaps, "messages that arrived before an earlier one")                                     \
	X(full, "writes that had to wait for a reader")                                            \
	X(offers, "calls with credit")                                                             \
	X(half_closed, "half-closes that were read")                                               \
	X(early, "streams that the server ended first")                                            \
	X(cancels, "streams cancelled")                                                            \
	X(deaths, "servers that died")
static struct stream_sums {
#define X(name, text) uint64_t name;
	STREAM_SUMS(X)
#undef X
} sums;

__attribute__((format(printf, 1, 2))) _Noreturn static void fail_run(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "stream seed %lu at step %u: ", (unsigned long)run.seed, run.step);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

static uint64_t draw_below(uint64_t n)
{
	return lend_rng_below(&run.rng, n);
}

static bool draw_odds(uint32_t ppm)
{
	return draw_below(1000000) < ppm;
}

static uint32_t draw_len(void)
{
	static const uint32_t most[] = {1, 100, 5000, 200000, 300000};

	return (uint32_t)draw_below(most[draw_below(5)] + 1);
}

static lend_ns draw_arrival(void)
{
	return run.now + 1 + draw_below(run.jitter) +
	       (draw_odds(run.late_ppm) ? draw_below(5 * MS) : 0);
}

/* Half of the runs end in another way than by the server's answer to everything. */
static void open_run(uint64_t seed)
{
	memset(&run, 0, sizeof(run));
	run.seed = seed;
	lend_rng_seed(&run.rng, seed);
	run.now = MS;
	run.jitter = 1 + draw_below(draw_below(2) ? 10 * US : MS);
	run.again_ppm = (uint32_t)(draw_below(2) * draw_below(300000));
	run.late_ppm = (uint32_t)(draw_below(2) * draw_below(300000));
	run.opened_at = run.now + draw_below(run.jitter);
	run.status_at = run.gone_at = LEND_NEVER;
	run.cancel_at = run.death_at = run.end_at = UINT32_MAX;
	if (draw_below(2)) {
		uint32_t *at[] = {&run.cancel_at, &run.death_at, &run.end_at};

		*at[draw_below(3)] = 1 + (uint32_t)draw_below(400);
	}
	for (uint32_t i = 0; i < ENDS; i++) {
		struct end *e = &run.end[i];

		lend_duplex_init(&e->d);
		e->wants = (uint32_t)(draw_below(4) ? draw_below(MESSAGES + 1) : draw_below(2));
		e->reads_from = (uint32_t)(draw_below(2) * draw_below(300));
		for (uint32_t k = 0; k < MESSAGES; k++)
			e->len[k] = draw_len();
	}
}

/* The reader has bounded memory, and its writer obeys: all that is not read, but the last message,
 * is below the limit. */
static void check_credit(const struct end *from, const struct end *to)
{
	uint64_t bytes = 0;

	if (from->written - to->read > LEND_STREAM_WINDOW)
		fail_run("%u messages are written and not read", from->written - to->read);
	for (uint32_t i = to->read; i + 1 < from->written; i++)
		bytes += from->len[i];
	if (bytes >= LEND_STREAM_BYTES)
		fail_run("%lu bytes are written and not read", (unsigned long)bytes);
}

static void write_some(uint32_t i)
{
	struct end *e = &run.end[i];
	uint32_t call;

	while (e->written < e->wants && draw_below(4)) {
		enum lend_put put = lend_duplex_put(&e->d, e->len[e->written], &call);

		sums.full += put == LEND_PUT_FULL;
		if (put != LEND_PUT_TAKEN)
			return;
		e->written++;
		if (!run.cancelled && !run.dead)
			check_credit(e, &run.end[!i]);
	}
	if (i == OPENER && e->written == e->wants)
		lend_duplex_finish(&e->d, true);
}

static void read_some(uint32_t i)
{
	struct end *e = &run.end[i];
	const struct end *from = &run.end[!i];
	enum lend_taking got = LEND_TAKING_NONE;
	uint64_t tag;

	while (run.step >= e->reads_from && draw_below(4) &&
	       (got = lend_duplex_take(&e->d, &tag)) == LEND_TAKING_MESSAGE) {
		if (tag != e->read)
			fail_run("end %u reads message %lu instead of %u", i, (unsigned long)tag,
				 e->read);
		e->read++;
		sums.messages++;
		if (e->read > from->written)
			fail_run("end %u reads a message that was not written", i);
	}
	if (got != LEND_TAKING_END || e->eof)
		return;
	e->eof = true;
	if (i == SERVER && !e->d.deaf && (e->read != from->wants || from->written != from->wants))
		fail_run("the half-close is read after %u of %u messages", e->read, from->wants);
	if (i == OPENER && run.answered && !run.cancelled && e->read != from->written)
		fail_run("the end is read after %u of %u messages", e->read, from->written);
	sums.half_closed += i == SERVER && !e->d.deaf;
}

static void drop_arrived(struct lend_duplex *d)
{
	uint64_t tag;

	while (lend_duplex_drop(d, &tag))
		continue;
}

/* Ends all calls of an end, as a cancel of each does. */
static void end_calls(uint32_t i)
{
	struct end *e = &run.end[i];

	lend_duplex_close(&e->d);
	for (uint32_t k = 0; k < LEND_STREAM_CALLS; k++) {
		if (e->flight[k].used)
			lend_duplex_call_ended(&e->d, run.now, k, LEND_CALL_LOST, 0);
		e->flight[k].used = false;
	}
}

static void make_calls(uint32_t i)
{
	struct end *e = &run.end[i];
	struct lend_note note;
	uint32_t k;

	while ((k = lend_duplex_next(&e->d, run.now, &note)) < LEND_STREAM_CALLS) {
		if (e->flight[k].used)
			fail_run("end %u makes call %u twice", i, k);
		e->flight[k] = (struct flight){
		    .used = true,
		    .len = note.kind == LEND_NOTE_MESSAGE ? e->len[note.at % MESSAGES] : 0,
		    .note = note,
		    .at = draw_arrival(),
		};
		sums.offers += note.kind == LEND_NOTE_CREDIT;
	}
}

/* The request of a call arrives at the other end. */
static void arrive_call(uint32_t from, struct flight *f)
{
	struct end *to = &run.end[!from];
	uint32_t entry;

	f->replied = true;
	f->at = draw_arrival();
	f->result = LEND_CALL_AGAIN;
	if (run.now < run.opened_at || to->d.deaf || (run.dead && from == OPENER) ||
	    draw_odds(run.again_ppm))
		return;
	switch (lend_duplex_arrived(&to->d, &f->note, f->len, &entry)) {
	case LEND_ARRIVAL_KEEP:
		to->d.in[entry].tag = f->note.at;
		sums.gaps += f->note.at > to->d.next && !to->d.in[to->d.next % 16].present;
		break;
	case LEND_ARRIVAL_KNOWN:
		sums.copies += f->note.kind == LEND_NOTE_MESSAGE;
		break;
	case LEND_ARRIVAL_FORGED:
		fail_run("end %u refuses a note of kind %u, %lu", !from, f->note.kind,
			 (unsigned long)f->note.at);
	}
	f->taken = lend_duplex_report(&to->d);
	if (!draw_odds(run.again_ppm)) /* else the reply is lost for lack of memory */
		f->result = LEND_CALL_OK;
}

/* Gives an end a note that no sane peer sends. It must be refused, and change nothing. */
static void forge_note(struct lend_duplex *d)
{
	struct lend_note note = {.kind = (uint8_t)draw_below(LEND_NOTE_KINDS)};
	struct lend_duplex before = *d;
	uint32_t entry, len = 0;

	note.at = d->next + LEND_STREAM_WINDOW + 1 + draw_below(100);
	if (note.kind == LEND_NOTE_LAST && draw_below(2) && d->top)
		note.at = draw_below(d->top);
	else if (note.kind == LEND_NOTE_CREDIT)
		note.at = d->sent + 1 + draw_below(100);
	else if (note.kind == LEND_NOTE_MESSAGE && draw_below(2))
		note.at = d->next + LEND_STREAM_WINDOW;
	if (d->top > d->next && !d->in[d->next % LEND_STREAM_WINDOW].present && draw_below(2)) {
		note.kind = LEND_NOTE_MESSAGE; /* a missing one, too long for what is here */
		note.at = d->next;
		len = 1 << 20;
	}
	if (lend_duplex_arrived(d, &note, len, &entry) != LEND_ARRIVAL_FORGED)
		fail_run("a forged note of kind %u, %lu is taken", note.kind,
			 (unsigned long)note.at);
	if (memcmp(&before, d, sizeof(before)) != 0)
		fail_run("a forged note changes the stream");
	sums.forged++;
}

static void move_calls(uint32_t i)
{
	struct end *e = &run.end[i];

	for (uint32_t k = 0; k < LEND_STREAM_CALLS; k++) {
		struct flight *f = &e->flight[k];

		if (!f->used || f->at > run.now)
			continue;
		if (!f->replied) {
			arrive_call(i, f);
			continue;
		}
		f->used = false;
		sums.repeats += f->result == LEND_CALL_AGAIN;
		lend_duplex_call_ended(&e->d, run.now, k, f->result, f->taken);
		if (e->d.broken)
			fail_run("end %u is broken", i);
	}
}

/* The server ends the stream: when it has read and written everything, or at a step. */
static void end_by_server(void)
{
	struct end *e = &run.end[SERVER];
	bool all = e->eof && e->written == e->wants;

	if (run.cancelled || run.dead || run.answered || run.now < run.opened_at)
		return;
	if (!e->d.finished && (all || run.step >= run.end_at)) {
		sums.early += !all;
		lend_duplex_finish(&e->d, false);
		drop_arrived(&e->d);
	}
	if (!e->d.finished || !lend_duplex_all_sent(&e->d))
		return;
	run.answered = true;
	run.status_at = draw_arrival();
	end_calls(SERVER);
}

static void end_early(void)
{
	if (run.step == run.cancel_at && !run.over) {
		sums.cancels++;
		run.cancelled = true;
		end_calls(OPENER);
		drop_arrived(&run.end[OPENER].d);
		run.gone_at = draw_arrival();
	}
	if (run.step == run.death_at && !run.answered) {
		sums.deaths++;
		run.dead = true;
		end_calls(SERVER);
		drop_arrived(&run.end[SERVER].d);
		run.gone_at = draw_arrival();
	}
	if (run.now >= run.status_at || (run.dead && run.now >= run.gone_at)) {
		if (!run.over)
			lend_duplex_end(&run.end[OPENER].d);
		run.over = true;
		end_calls(OPENER);
	}
	if (run.cancelled && run.now >= run.gone_at) {
		end_calls(SERVER);
		drop_arrived(&run.end[SERVER].d);
		run.over = true;
	}
}

/* Moves the clock to the next event; a quarter of the steps are the applications'. */
static void pass_time(void)
{
	lend_ns next = lend_min_u64(run.status_at, run.gone_at);

	for (uint32_t i = 0; i < ENDS; i++) {
		next = lend_min_u64(next, lend_duplex_wake(&run.end[i].d));
		for (uint32_t k = 0; k < LEND_STREAM_CALLS; k++)
			if (run.end[i].flight[k].used)
				next = lend_min_u64(next, run.end[i].flight[k].at);
	}
	next = lend_max_u64(next, run.now);
	run.now = next == LEND_NEVER || draw_below(4) == 0 ? run.now + draw_below(10 * US) : next;
}

static bool is_done(void)
{
	const struct end *opener = &run.end[OPENER], *server = &run.end[SERVER];

	return run.over && lend_duplex_peek(&opener->d) == LEND_TAKING_END &&
	       (opener->eof || opener->d.deaf) && !lend_duplex_is_busy(&opener->d) &&
	       !lend_duplex_is_busy(&server->d);
}

static void check_end(void)
{
	const struct end *opener = &run.end[OPENER], *server = &run.end[SERVER];

	if (!run.cancelled && !run.dead && opener->read != server->written)
		fail_run("the opener reads %u of %u messages", opener->read, server->written);
	for (uint32_t i = 0; i < ENDS; i++) {
		drop_arrived(&run.end[i].d);
		if (lend_duplex_wake(&run.end[i].d) != LEND_NEVER)
			fail_run("end %u still has calls to make", i);
	}
}

void stream_run_seed(uint64_t seed)
{
	open_run(seed);
	while (!is_done()) {
		if (++run.step == STEPS_MAX)
			fail_run("it does not end: read %u of %u and %u of %u", run.end[0].read,
				 run.end[1].wants, run.end[1].read, run.end[0].wants);
		pass_time();
		for (uint32_t i = 0; i < ENDS; i++) {
			if (seed % 4 == 0)
				forge_note(&run.end[i].d);
			move_calls(i);
			if (i == OPENER || run.now >= run.opened_at) {
				read_some(i);
				write_some(i);
			}
			make_calls(i);
		}
		end_by_server();
		end_early();
	}
	check_end();
	sums.runs++;
}

struct options {
	uint64_t first, last;
	bool json;
};

static const struct lend_option options[] = {
    OPT_SEEDS(struct options, first, "Seeds to run (1..20000)"),
    OPT_JSON(struct options, json),
    {.name = NULL}};

int sim_cmd_stream(int argc, char **argv)
{
	struct options o = {1, 20000, false};
	const char *const name[] = {
#define X(name, text) #name, text,
	    STREAM_SUMS(X)
#undef X
	};
	const uint64_t *sum = (const uint64_t *)&sums;
	unsigned missed = 0;

	lend_options_read(&(struct lend_syntax){.option = options}, NULL, argc, argv, &o);
	for (uint64_t seed = o.first; seed <= o.last; seed++)
		stream_run_seed(seed);
	for (size_t i = 0; i < sizeof(sums) / 8; i++) {
		if (sums.runs >= RUNS_MANY && !sum[i]) {
			fprintf(stderr, "stream: no run reached this: %s\n", name[2 * i + 1]);
			missed++;
		}
		if (o.json)
			printf("%s\"stream_%s\":%lu", i ? "," : "{", name[2 * i],
			       (unsigned long)sum[i]);
		else
			printf("%12lu %s\n", (unsigned long)sum[i], name[2 * i + 1]);
	}
	if (o.json)
		putchar(0x7d);

	return missed != 0;
}
