/* echo - see echo.h. */
#include "apps/common/echo.h"

#include <string.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/bench_server.h"
#include "util/bits.h"
#include "util/crc32c.h"

enum { ENDS = 4096 };

static void serve_echo(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_ep *ep = arg;

	lend_reply(ep, request, LEND_OK, bytes ? lend_request_take(ep, request) : NULL);
}

static void serve_sink(lend_request request, const struct lend_buf *bytes, void *arg)
{
	uint64_t len;
	uint32_t crc = app_message_crc(bytes, &len);

	app_sum_reply(arg, request, crc, len);
}

uint32_t app_ends_crc(const void *bytes, uint64_t len)
{
	uint64_t n = len < ENDS ? len : ENDS;
	uint32_t crc = lend_crc32c(0, bytes, n);

	return lend_crc32c(crc, (const char *)bytes + len - n, n);
}

/* A long message is one segment, since it was received into memory of its own. */
static void serve_ends(lend_request request, const struct lend_buf *bytes, void *arg)
{
	if (bytes->next)
		(void)lend_reply_why(arg, request, LEND_UNIMPLEMENTED,
				     "this method takes a request of one segment");
	else
		app_sum_reply(arg, request, app_ends_crc(bytes->data, bytes->len), bytes->len);
}

void app_echo_serve(struct lend_ep *ep)
{
	if (lend_serve(ep, APP_METHOD_ECHO, serve_echo, ep, LEND_RESERVED) < 0 ||
	    lend_serve(ep, APP_METHOD_SINK, serve_sink, ep, LEND_RESERVED) < 0 ||
	    lend_serve(ep, APP_METHOD_ENDS, serve_ends, ep, LEND_RESERVED) < 0)
		app_die("%s", lend_why());
}

void app_sum_reply(struct lend_ep *ep, lend_request request, uint32_t crc, uint64_t len)
{
	char sum[APP_SUM_LEN];

	lend_store_u32(sum, crc);
	lend_store_u64(sum + 4, len);
	lend_reply_copy(ep, request, LEND_OK, sum, sizeof(sum));
}

uint64_t app_sum_wrong(const struct lend_buf *reply, uint32_t crc, uint64_t len)
{
	const char *sum = reply ? reply->data : NULL;

	if (sum && reply->len == APP_SUM_LEN && lend_load_u32(sum) == crc &&
	    lend_load_u64(sum + 4) == len)
		return 0;
	return len ? len : 1;
}
