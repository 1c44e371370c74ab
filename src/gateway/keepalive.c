/* keepalive - PINGs of both ends. See keepalive.h. */
#include "gateway/keepalive.h"

#include <stdlib.h>
#include <string.h>

enum { STRIKES_MAX = 2 };
static const lend_ns second = 1000000000;

void h2_keepalive_init(struct h2_keepalive *k, lend_ns every)
{
	*k = (struct h2_keepalive){.every = every, .timeout = 20 * second};
}

bool h2_seconds_read(const char *parameter, const char *name, lend_ns *time)
{
	size_t len = strlen(name);
	double seconds;
	char *end;

	if (strncmp(parameter, name, len) != 0 || parameter[len] != '=')
		return false;
	seconds = strtod(parameter + len + 1, &end);
	if (*end || !(seconds >= 1e-3 && seconds <= 1e6))
		return false;
	*time = (lend_ns)(seconds * (double)second);
	return true;
}

bool h2_keepalive_read(struct h2_keepalive *k, const char *parameter)
{
	return h2_seconds_read(parameter, "keepalive", &k->every) ||
	       h2_seconds_read(parameter, "keepalive_timeout", &k->timeout);
}

bool h2_lifetime_read(struct h2_lifetime *l, const char *parameter)
{
	return h2_seconds_read(parameter, "max_idle", &l->idle) ||
	       h2_seconds_read(parameter, "max_age", &l->age) ||
	       h2_seconds_read(parameter, "max_age_grace", &l->grace);
}

lend_ns h2_keepalive_next(struct h2_connection *c, const struct h2_keepalive *k)
{
	lend_ns now = host->now(c->ep);

	if (k->every == LEND_NEVER)
		return LEND_NEVER;
	if (c->pinged > c->since) /* any input is an answer */
		return now - c->pinged < k->timeout ? c->pinged + k->timeout : 0;
	if (now - c->since < k->every)
		return c->since + k->every;
	c->pinged = now;
	if (nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL) < 0)
		c->over = true;
	return now + k->timeout;
}

void h2_ping_count(struct h2_connection *c, const struct h2_keepalive *k, struct h2_pings *pings)
{
	lend_ns now = host->now(c->ep), min = c->open ? 300 * second : 7200 * second;
	bool early = pings->last && now - pings->last < (k->min ? k->min : min);

	pings->last = now;
	if (early && ++pings->strikes > STRIKES_MAX && !c->failed)
		h2_connection_goaway(c, NGHTTP2_ENHANCE_YOUR_CALM, H2_TOO_MANY_PINGS);
}
