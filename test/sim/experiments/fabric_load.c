#include "sim/experiments/fabric_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/experiments/ideal.h"
#include "util/check.h"

/* Of a datagram of 1,472 bytes without a checksum. */
enum { PAYLOAD = 1376, HEADS = 44 };
/* The reply to each message is empty, in a datagram that carries a receive report. */
enum { ANSWER = 72 };

const double fabric_size[FABRIC_SIZES] = {PAYLOAD, 65536, 1048576, HUGE_VAL};

static double wire_bytes(uint32_t bytes)
{
	return bytes + HEADS * fmax(1, ceil(bytes / (double)PAYLOAD));
}

double fabric_link_ns(const struct fabric_plan *p, uint32_t bytes)
{
	return wire_bytes(bytes) * 8e3 / (double)p->net.mbps;
}

static uint32_t rack_of(const struct fabric_plan *p, uint32_t host)
{
	return p->net.racks ? (uint32_t)(host * p->net.racks / p->net.nodes) : 0;
}

/* Returns the delay of the path. Switches store a datagram completely before they forward it. */
static double path_ns(const struct fabric_plan *p, const struct fabric_message *m)
{
	double first = fabric_link_ns(p, m->bytes < PAYLOAD ? m->bytes : PAYLOAD);

	if (rack_of(p, m->from) == rack_of(p, m->to))
		return (double)p->net.delay_ns;
	return 3 * (double)p->net.delay_ns + 2 * first / (double)p->net.speed;
}

double fabric_least_ns(const struct fabric_plan *p, const struct fabric_message *m)
{
	return path_ns(p, m) + fabric_link_ns(p, m->bytes);
}

static double draw_uniform(struct lend_rng *rng)
{
	return (double)((lend_rng_next(rng) >> 11) + 1) * 0x1p-53;
}

/* Draws a destination for this host: another host, or one of the peers that were drawn for it. */
static uint32_t draw_peer(const struct fabric_plan *p, struct lend_rng *rng, uint32_t from)
{
	uint64_t far = p->peers ? 1 + lend_rng_below(rng, p->peers) : 0;
	struct lend_rng own;

	if (!p->peers || p->peers >= p->net.nodes - 1)
		return (uint32_t)((from + 1 + lend_rng_below(rng, p->net.nodes - 1)) %
				  p->net.nodes);
	lend_rng_seed(&own, p->net.seed << 32 ^ (uint64_t)from << 12 ^ far);
	return (uint32_t)((from + 1 + lend_rng_below(&own, p->net.nodes - 1)) % p->net.nodes);
}

struct fabric_load *fabric_load_open(const struct fabric_plan *p)
{
	struct fabric_load *load = calloc(1, sizeof(*load));
	/* Mean time between two messages of all hosts together. */
	double each = (ANSWER + mix_mean(p->mix, wire_bytes)) * 8e3 / (double)p->net.mbps /
		      ((double)p->net.nodes * (double)p->load / 100);
	double at = 0;
	struct lend_rng rng;

	LEND_CHECK(load);
	load->message = calloc(p->messages, sizeof(*load->message));
	LEND_CHECK(load->message);
	lend_rng_seed(&rng, p->net.seed);
	for (; load->n < p->messages && at <= (double)p->us * 1e3; load->n++) {
		struct fabric_message *m = &load->message[load->n];

		m->at = (lend_ns)at;
		m->from = (uint32_t)lend_rng_below(&rng, p->net.nodes);
		m->to = draw_peer(p, &rng, m->from);
		m->bytes = mix_draw(p->mix, &rng);
		load->span = m->at;
		at -= each * log(draw_uniform(&rng));
	}
	return load;
}

void fabric_load_close(struct fabric_load *load)
{
	free(load->message);
	free(load);
}

static int by_value(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static struct fabric_slowdown sum_up(double *slow, uint32_t n)
{
	struct fabric_slowdown s = {n, NAN, NAN, NAN, NAN};
	double sum = 0;

	if (n == 0)
		return s;
	qsort(slow, n, sizeof(*slow), by_value);
	for (uint32_t i = 0; i < n; i++)
		sum += slow[i];
	s.mean = sum / n;
	s.p50 = slow[n / 2];
	s.p99 = slow[(uint32_t)(n * 0.99)];
	s.p999 = slow[(uint32_t)(n * 0.999)];
	return s;
}

/* Summarises the measured messages with a length in (above, upto]. */
static struct fabric_slowdown count_between(const struct fabric_load *load, const double *slow,
					    double *room, double above, double upto)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < load->n; i++)
		if (slow[i] > 0 && load->message[i].bytes > above && load->message[i].bytes <= upto)
			room[n++] = slow[i];
	return sum_up(room, n);
}

void fabric_judge(const struct fabric_plan *p, const struct fabric_load *load, const double *ns,
		  double over, struct fabric_result *r)
{
	double *slow = calloc(2 * (size_t)load->n, sizeof(*slow)), *room = slow + load->n;
	double above = -1, upto, median = mix_quantile(p->mix, 0.5);

	LEND_CHECK(slow);
	/* The first messages meet an empty network, the last ones an emptying one: neither is
	 * measured. */
	for (uint32_t i = 0; i < load->n; i++) {
		const struct fabric_message *m = &load->message[i];
		double took = ns[i] > 0 ? ns[i] : over - (double)m->at;

		if (m->at < load->span / 5 || m->at > load->span / 10 * 9)
			continue;
		slow[i] = took / fabric_least_ns(p, m);
		r->measured++;
		r->unfinished += ns[i] <= 0;
	}
	r->all = count_between(load, slow, room, -1, HUGE_VAL);
	r->small = count_between(load, slow, room, -1, median);
	r->large = count_between(load, slow, room, mix_quantile(p->mix, 0.9), HUGE_VAL);
	for (int i = 0; i < FABRIC_PARTS; i++, above = upto) {
		upto = mix_quantile(p->mix, (i + 1.0) / FABRIC_PARTS);
		r->part[i] = count_between(load, slow, room, above, upto);
	}
	for (int i = 0; i < FABRIC_SIZES; i++)
		r->size[i] =
		    count_between(load, slow, room, i ? fabric_size[i - 1] : -1, fabric_size[i]);
	free(slow);
}

void fabric_ideal(const struct fabric_plan *p, const struct fabric_load *load,
		  struct fabric_result *r)
{
	struct ideal_message *im = calloc(load->n, sizeof(*im));
	double *ns = calloc(load->n, sizeof(*ns)), in_time = 0, all = 0;

	LEND_CHECK(im && ns);
	memset(r, 0, sizeof(*r));
	for (uint32_t i = 0; i < load->n; i++) {
		const struct fabric_message *m = &load->message[i];

		im[i] = (struct ideal_message){(double)m->at, fabric_link_ns(p, m->bytes), m->from,
					       m->to, 0};
	}
	ideal_run(im, load->n, (uint32_t)p->net.nodes);
	for (uint32_t i = 0; i < load->n; i++) {
		ns[i] = im[i].done - im[i].at + path_ns(p, &load->message[i]);
		all += load->message[i].bytes;
		in_time += im[i].done <= (double)load->span ? load->message[i].bytes : 0;
	}
	fabric_judge(p, load, ns, 0, r);
	r->goodput = 100 * in_time / all;
	r->span = load->span;
	r->ok = true;
	free(im);
	free(ns);
}
