#include "core/cookie.h"

#include "util/siphash.h"

#define LIFE_NS (10000 * LEND_MS)
#define KEY_NS  (60000 * LEND_MS)

static void mac_of(const struct lend_core *c, uint64_t holder, uint64_t connect, lend_ns time,
		   uint8_t mac[16])
{
	const uint64_t minute[] = {time / KEY_NS, 0}, text[] = {holder, time, connect};
	uint8_t key[16];

	lend_siphash128(c->cfg.seed, minute, sizeof(minute), key);
	lend_siphash128(key, text, sizeof(text), mac);
}

void lend_cookie_make(const struct lend_core *c, uint64_t holder, uint64_t connect,
		      struct lend_pkt_cookie *to)
{
	to->time = c->now;
	mac_of(c, holder, connect, to->time, to->mac);
}

bool lend_cookie_good(const struct lend_core *c, uint64_t holder, uint64_t connect,
		      const struct lend_pkt_cookie *cookie)
{
	uint8_t mac[16];

	if (cookie->time == 0 || cookie->time > c->now || c->now - cookie->time >= LIFE_NS)
		return false;
	mac_of(c, holder, connect, cookie->time, mac);
	return lend_equal_ct(mac, cookie->mac, sizeof(mac));
}

bool lend_cookie_demanded(const struct lend_core *c)
{
	return c->half.n > 0 && c->half.n * 4 >= c->half_max;
}
