/* args_message - arguments as the bytes of a message, and out of one.
 * Layer: cn. Threads: writing: the endpoint's; reading: any. */
#include <errno.h>
#include <string.h>

#include "cn/args/args.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "wire/arg.h"

struct writer {
	struct lend_ep *ep;
	struct cn_args *args; /* NULL: all arguments are copied */
	struct lend_buf *first, **last, *buf;
	uint64_t left; /* bytes yet to be copied */
	bool failed;
};

static bool is_copied(const struct writer *w, uint64_t len)
{
	return !w->args || len <= CN_ARGS_COPY_MAX;
}

static void copy_bytes(struct writer *w, const void *bytes, uint64_t len)
{
	if (!w->buf && len) {
		w->buf = *w->last = lend_buf_take(w->ep, (uint32_t)w->left);
		if (w->buf) {
			w->buf->len = 0;
			w->buf->next = NULL;
			w->last = &w->buf->next;
		}
	}
	w->failed |= len && !w->buf;
	if (w->failed || !len)
		return;
	memcpy((char *)w->buf->data + w->buf->len, bytes, len);
	w->buf->len += (uint32_t)len;
	w->left -= len;
}

static void wrap_piece(struct writer *w, const struct iovec *piece)
{
	struct lend_buf *buf = lend_buf_wrap(w->ep, piece->iov_base, (uint32_t)piece->iov_len,
					     cn_args_wrap_gone, w->args);

	w->failed |= !buf;
	if (!buf)
		return;
	w->args->wraps++;
	buf->next = NULL;
	*w->last = buf;
	w->last = &buf->next;
	w->buf = NULL;
}

static void write_home(struct writer *w, const char *home)
{
	static const uint8_t zeros[8];
	uint64_t len = strlen(home);
	uint8_t head[8];

	lend_store_u64(head, len);
	copy_bytes(w, head, sizeof(head));
	copy_bytes(w, home, len);
	copy_bytes(w, zeros, -len % 8);
}

/* Returns the address to send after an argument's reference; NULL: it is a node's. */
static const char *home_of(const struct writer *w, const struct cn_arg *arg)
{
	if (arg->plan == CN_ARG_REF)
		return arg->home;
	return arg->put && arg->put->lent ? w->args->home : NULL;
}

/* Returns the bytes of an argument that are copied into the message. */
static uint64_t copied_bytes(const struct writer *w, const struct cn_arg *arg)
{
	const struct lend_ref *ref = cn_arg_ref(arg);
	const char *home = ref ? home_of(w, arg) : NULL;
	uint64_t bytes = lend_arg_size(arg->len, ref) + lend_arg_home_size(home ? strlen(home) : 0);

	for (uint32_t i = 0; !ref && i < arg->n; i++)
		if (!is_copied(w, cn_arg_pieces(arg)[i].iov_len))
			bytes -= cn_arg_pieces(arg)[i].iov_len;
	return bytes;
}

static void write_bytes(struct writer *w, const struct cn_arg *arg)
{
	static const uint8_t zeros[8];

	for (uint32_t i = 0; i < arg->n; i++) {
		const struct iovec *piece = &cn_arg_pieces(arg)[i];

		if (is_copied(w, piece->iov_len))
			copy_bytes(w, piece->iov_base, piece->iov_len);
		else if (!w->failed)
			wrap_piece(w, piece);
	}
	copy_bytes(w, zeros, -arg->len % 8);
}

static void write_one(struct writer *w, const struct cn_arg *arg)
{
	const struct lend_ref *ref = cn_arg_ref(arg);
	const char *home = ref ? home_of(w, arg) : NULL;
	uint8_t head[LEND_ARG_HEAD];

	lend_arg_encode(arg->len, ref, home, head);
	copy_bytes(w, head, sizeof(head));
	if (ref)
		copy_bytes(w, ref, sizeof(*ref));
	else
		write_bytes(w, arg);
	if (home)
		write_home(w, home);
}

uint64_t cn_args_size(const struct cn_arg *arg, uint32_t n)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		bytes += lend_arg_size(arg[i].len, arg[i].plan == CN_ARG_REF) +
			 (arg[i].home ? lend_arg_home_size(strlen(arg[i].home)) : 0);
	return bytes;
}

bool cn_args_fit(struct lend_ep *ep, lend_session session, const struct cn_arg *arg, uint32_t n)
{
	return cn_args_size(arg, n) <= lend_session_message_max(ep, session);
}

struct lend_buf *cn_args_message(struct lend_ep *ep, const struct cn_arg *arg, uint32_t n,
				 struct cn_args *a, bool *fine)
{
	struct writer w = {.ep = ep, .args = a};

	w.last = &w.first;
	for (uint32_t i = 0; i < n; i++)
		w.left += copied_bytes(&w, &arg[i]);
	w.failed = w.left > UINT32_MAX;
	for (uint32_t i = 0; i < n && !w.failed; i++)
		write_one(&w, &arg[i]);
	*fine = !w.failed;
	if (*fine)
		return w.first;
	if (w.first)
		lend_buf_give(ep, w.first);
	return NULL;
}

/* Copies len bytes from offset at on. Returns false: the message ends before. */
static bool peek_bytes(const struct lend_buf *buf, uint64_t at, void *out, uint64_t len)
{
	for (; buf && len; buf = buf->next) {
		uint64_t n = at < buf->len ? lend_min_u64(buf->len - at, len) : 0;

		if (n)
			memcpy(out, (const char *)buf->data + at, n);
		out = (char *)out + n;
		len -= n;
		at -= lend_min_u64(at, buf->len);
	}
	return !len;
}

/* Returns the segment with the byte at; *at becomes relative to it. NULL: none. */
static const struct lend_buf *find_segment(const struct lend_buf *buf, uint64_t *at)
{
	for (; buf && *at >= buf->len; buf = buf->next)
		*at -= buf->len;
	return buf;
}

static int fail_message(void)
{
	return lend_fail(EINVAL, "these bytes are no arguments: was the message made by "
				 "lend_call_start_args() or lend_reply_args()?");
}

static int read_ref(const struct lend_buf *message, uint64_t at, struct lend_arg *arg)
{
	if (!peek_bytes(message, at, &arg->ref, sizeof(arg->ref)) ||
	    lend_ref_len(&arg->ref) != arg->len)
		return fail_message();
	return 1;
}

/* Reads the address of a reference's home. Returns the bytes that it takes in the message; 0: it is
 * not valid. */
static uint64_t read_home(const struct lend_buf *message, uint64_t at, struct lend_arg *arg)
{
	uint8_t head[8];
	uint64_t len;

	if (!peek_bytes(message, at, head, sizeof(head)))
		return 0;
	len = lend_load_u64(head);
	if (!len || len > LEND_ARG_HOME_MAX || !peek_bytes(message, at + 8, arg->home, len) ||
	    memchr(arg->home, 0, len))
		return 0;
	arg->home[len] = 0;
	return lend_arg_home_size(len);
}

static int read_bytes(const struct lend_buf *message, uint64_t at, uint64_t size,
		      struct lend_arg *arg)
{
	const struct lend_buf *buf;
	char last;

	if (size && !peek_bytes(message, at + size - 1, &last, 1))
		return fail_message();
	buf = find_segment(message, &at);
	if (!size) {
		arg->bytes = "";
		return 1;
	}
	if (arg->len > buf->len - at)
		return lend_fail(EMSGSIZE,
				 "an argument of %llu bytes spans segments: receive messages with "
				 "arguments in one segment",
				 (unsigned long long)arg->len);
	arg->bytes = (const char *)buf->data + at;
	return 1;
}

int lend_arg_next(const struct lend_buf *message, uint32_t *cursor, struct lend_arg *arg)
{
	uint64_t at = *cursor, size;
	uint8_t head[LEND_ARG_HEAD];
	bool by_ref, homed;
	int rc;

	*arg = (struct lend_arg){.len = 0};
	if (!peek_bytes(message, at, head, 1))
		return 0;
	if (!peek_bytes(message, at, head, sizeof(head)) ||
	    !lend_arg_decode(head, &arg->len, &by_ref, &homed))
		return fail_message();
	size = lend_arg_size(arg->len, by_ref);
	if (size > UINT32_MAX - at)
		return fail_message();
	at += LEND_ARG_HEAD;
	rc = by_ref ? read_ref(message, at, arg)
		    : read_bytes(message, at, size - LEND_ARG_HEAD, arg);
	if (rc > 0 && homed) {
		uint64_t more = read_home(message, at + LEND_MEMREF_LEN, arg);

		if (!more)
			return fail_message();
		size += more;
	}
	if (rc > 0)
		*cursor += (uint32_t)size;
	return rc;
}
