#include "mn/worker_addresses.h"

#include <errno.h>
#include <string.h>

#include "lend/carrier.h"
#include "sys/last_error.h"
#include "wire/worker_address.h"

enum { TRIES = 16 };

static size_t next_item(const char **list, char out[LEND_MEMOP_TEXT_MAX + 1])
{
	size_t n = strcspn(*list += strspn(*list, ", "), ", ");

	if (n > LEND_MEMOP_TEXT_MAX)
		n = LEND_MEMOP_TEXT_MAX;
	memcpy(out, *list, n);
	out[n] = 0;
	*list += n;
	return n;
}

static bool picks_port(const char *address)
{
	return !lend_worker_address_port(address) &&
	       !(lend_carrier_traits(address) & LEND_CARRIER_NAMES);
}

/* Builds the addresses of worker i: the requested ones, with the port that worker 0 was given. */
static int derive_list(const char *asked, const char *got, uint32_t i,
		       char list[LEND_MEMOP_TEXT_MAX + 1])
{
	char a[LEND_MEMOP_TEXT_MAX + 1], g[LEND_MEMOP_TEXT_MAX + 1];
	size_t at = 0;

	while (next_item(&asked, a) && next_item(&got, g)) {
		const char *base = picks_port(a) ? g : a;

		if (at)
			list[at++] = ',';
		if (!lend_worker_address(base, 0, i, list + at, LEND_MEMOP_TEXT_MAX - at))
			return lend_fail(ERANGE,
					 "%s: no port left for worker %u (65535 is the last): give "
					 "another address, or fewer --workers",
					 base, i);
		at += strlen(list + at);
	}
	return 0;
}

static int listen_once(struct mn_worker *worker, uint32_t n, const struct mn_config *config)
{
	char list[LEND_MEMOP_TEXT_MAX + 1];
	int rc = mn_worker_listen(worker, config, config->listen);

	for (uint32_t i = 1; i < n && rc == 0; i++) {
		rc = derive_list(config->listen, worker->address, i, list);
		if (rc == 0)
			rc = mn_worker_listen(&worker[i], config, list);
	}
	return rc;
}

static bool may_move(const char *listen)
{
	char address[LEND_MEMOP_TEXT_MAX + 1];

	while (next_item(&listen, address))
		if (picks_port(address))
			return true;
	return false;
}

int mn_addresses_listen(struct mn_worker *worker, uint32_t n, const struct mn_config *config)
{
	int rc = listen_once(worker, n, config);

	for (int i = 0;
	     i < TRIES && n > 1 && may_move(config->listen) && (rc == -EADDRINUSE || rc == -ERANGE);
	     i++) {
		for (uint32_t w = 0; w < n; w++)
			mn_worker_close_endpoint(&worker[w]);
		rc = listen_once(worker, n, config);
	}
	return rc;
}

void mn_addresses_text(const struct mn_worker *worker, uint32_t n,
		       char text[LEND_MEMOP_TEXT_MAX + 1])
{
	size_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		size_t len = strlen(worker[i].address);

		if (at + len + (i > 0) > LEND_MEMOP_TEXT_MAX)
			break;
		if (i)
			text[at++] = ',';
		memcpy(text + at, worker[i].address, len + 1);
		at += len;
	}
}
