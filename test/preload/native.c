/* native - a Lend server of the service Numbers, as programs under lend grpc-run find it.
 * usage: native PORT     prints "ready" */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lend/stats.h"
#include "lend/stream.h"
#include "numbers.pb-c.h"

static struct lend_ep *ep;

struct talk {
	struct lend_stream stream;
	lend_request request;
	enum { COUNT, SUM, ECHO } kind;
	int64_t n, at;
	struct lend_buf *unsent;
	bool counting, finished;
};

static void add_metadata(lend_request request, struct lend_reply_head *head, void *made[2])
{
	struct lend_metadata *initial = lend_metadata_new(), *trailing = lend_metadata_new();
	struct lend_pair pair;
	uint32_t at = 0;
	char key[80];

	while (lend_request_metadata(ep, request, &at, &pair)) {
		if (strcmp(pair.key, "x-text") != 0 && strcmp(pair.key, "x-bytes-bin") != 0)
			continue;
		snprintf(key, sizeof(key), "t%s", pair.key);
		lend_metadata_add(initial, pair.key, pair.value, pair.len);
		lend_metadata_add(trailing, key, pair.value, pair.len);
	}
	head->initial = made[0] = initial;
	head->trailing = made[1] = trailing;
}

static void free_metadata(void *made[2])
{
	lend_metadata_free(made[0]);
	lend_metadata_free(made[1]);
}

static struct lend_buf *pack_number(int64_t value, ProtobufCBinaryData padding)
{
	Numbers__Number out = NUMBERS__NUMBER__INIT;
	struct lend_buf *buf;

	out.value = value;
	out.padding = padding;
	buf = lend_buf_take(ep, (uint32_t)numbers__number__get_packed_size(&out) + 1);
	buf->len = (uint32_t)numbers__number__pack(&out, buf->data);
	return buf;
}

static void answer_double(lend_request request, const struct lend_buf *bytes, void *arg)
{
	Numbers__Number *in = numbers__number__unpack(NULL, bytes->len, bytes->data);
	struct lend_reply_head head = {.message = NULL};
	void *made[2] = {NULL, NULL};
	uint32_t at = 0;
	struct lend_pair pair;
	struct lend_stats stats;

	(void)arg;
	lend_stats_get(ep, &stats);
	if (in->value == -3)
		exit(3);
	if (in->value == -5)
		lend_stop(ep);
	if (in->value == -4)
		in->value = (int64_t)stats.rx_datagrams / 2;
	if (in->value == -1) {
		lend_reply_why(ep, request, LEND_FAILED_PRECONDITION, "refused: \xc3\xa4");
	} else if (in->value != -2) {
		if (lend_request_metadata(ep, request, &at, &pair)) {
			add_metadata(request, &head, made);
			lend_reply_with(ep, request, LEND_OK,
					pack_number(2 * in->value, in->padding), &head);
			free_metadata(made);
		} else {
			lend_reply(ep, request, LEND_OK, pack_number(2 * in->value, in->padding));
		}
	}
	numbers__number__free_unpacked(in, NULL);
}

static void end_talk(struct talk *t, enum lend_status status, const char *why)
{
	struct lend_reply_head head = {.message = why};
	void *made[2];

	t->finished = true;
	add_metadata(t->request, &head, made);
	head.initial = NULL;
	lend_stream_end_with(ep, &t->stream, status, &head);
	free_metadata(made);
}

static void write_count(struct talk *t)
{
	ProtobufCBinaryData none = {0};
	struct lend_buf *buf;

	for (; t->at < t->n; t->at++) {
		buf = pack_number(t->at, none);
		if (lend_stream_write(ep, &t->stream, buf) < 0) {
			lend_buf_give(ep, buf);
			return;
		}
	}
	end_talk(t, LEND_OK, NULL);
}

static void take_request(struct talk *t, const struct lend_buf *bytes)
{
	Numbers__Number *in = numbers__number__unpack(NULL, bytes->len, bytes->data);

	if (t->kind == ECHO)
		t->unsent = pack_number(in->value, in->padding);
	if (t->kind == COUNT) {
		t->n = in->value;
		t->counting = true;
	}
	t->n += t->kind == SUM ? in->value : 0;
	numbers__number__free_unpacked(in, NULL);
}

static void finish_talk(struct talk *t)
{
	ProtobufCBinaryData none = {0};

	if (t->kind == ECHO)
		end_talk(t, LEND_ALREADY_EXISTS, "all echoed");
	if (t->kind != SUM)
		return;
	lend_stream_write(ep, &t->stream, pack_number(t->n, none));
	end_talk(t, LEND_OK, NULL);
}

static void advance_talk(struct lend_stream *stream)
{
	struct talk *t = (struct talk *)stream;
	struct lend_buf *buf;
	int rc = 0;

	while (rc == 0 && !t->finished) {
		if (t->unsent && lend_stream_write(ep, stream, t->unsent) < 0)
			return;
		t->unsent = NULL;
		rc = lend_stream_read(ep, stream, &buf);
		if (rc == 0) {
			take_request(t, buf);
			lend_buf_give(ep, buf);
		}
		if (t->counting && t->n < 0) {
			end_talk(t, LEND_NOT_FOUND, "nothing to count");
			return;
		}
		if (t->counting) {
			write_count(t);
			return;
		}
		if (rc == -ENODATA)
			finish_talk(t);
	}
}

static void free_talk(struct lend_stream *stream)
{
	struct talk *t = (struct talk *)stream;

	lend_buf_give(ep, t->unsent);
	free(t);
}

static void open_talk(lend_request request, void *kind)
{
	struct talk *t = calloc(1, sizeof(*t));
	struct lend_reply_head head;
	void *made[2];

	t->kind = (int)(intptr_t)kind;
	t->request = request;
	t->stream = (struct lend_stream){
	    .readable = advance_talk, .writable = advance_talk, .ended = free_talk};
	lend_stream_accept(ep, request, &t->stream);
	add_metadata(request, &head, made);
	lend_stream_begin(ep, &t->stream, head.initial);
	free_metadata(made);
}

int main(int argc, char **argv)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char address[64];

	snprintf(address, sizeof(address), argc > 2 ? "udp:127.0.0.1:%s" : "shm:grpc-%s", argv[1]);
	config.listen = address;
	if (lend_open(&config, &ep) < 0 ||
	    lend_serve_name(ep, "/numbers.Numbers/Twice", answer_double, NULL, 0) < 0 ||
	    lend_serve_stream_name(ep, "/numbers.Numbers/Count", open_talk, (void *)COUNT, 0) < 0 ||
	    lend_serve_stream_name(ep, "/numbers.Numbers/Sum", open_talk, (void *)SUM, 0) < 0 ||
	    lend_serve_stream_name(ep, "/numbers.Numbers/Echo", open_talk, (void *)ECHO, 0) < 0) {
		fprintf(stderr, "native: %s\n", lend_why());
		return 1;
	}
	puts("ready");
	fflush(stdout);
	lend_run(ep, LEND_NEVER);
	lend_drain(ep, 0); /* refuses calls from now on */
	lend_run(ep, LEND_NEVER);
	return 0;
}
