/* carrier - the carriers of an endpoint: opened when it listens or first needs one, given the
 * memory that they must register, closed with the endpoint.
 * Layer: rpc. Threads: the endpoint's. Ownership: the endpoint owns them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/region.h"
#include "io/capture/capture.h"
#include "io/capture/file.h"
#include "rpc/describe.h"
#include "rpc/endpoint.h"
#include "sys/last_error.h"

static void register_map(void *arg, void *memory, size_t len)
{
	struct lend_io *io = arg;

	(void)io->ops->reg(io, memory, len); /* on failure it copies from this memory */
}

/* Registers new regions, in this endpoint's thread, which its carriers belong to. */
static void on_grown(void *arg)
{
	struct lend_ep *ep = arg;

	for (uint32_t c = 0; c < ep->n_carriers; c++)
		if (ep->carrier[c].registers)
			lend_regions_ref(&ep->carrier[c].regions, register_map, ep->carrier[c].io);
}

static void register_memory(struct lend_ep *ep, struct lend_carrier *carrier)
{
	const struct lend_carrier_kind *kind = carrier->io->kind;

	carrier->registers = (kind->traits | kind->some) & LEND_CARRIER_REGISTERS;
	if (!carrier->registers)
		return;
	lend_bufs_each_memory(ep->bufs, register_map, carrier->io);
	lend_bufs_on_grow(ep->bufs, on_grown, ep);
	ep->bufs->regions = 0;
}

static struct lend_io_config config_of(const struct lend_ep *ep, const char *listen,
				       const char *peer)
{
	return (struct lend_io_config){
	    .listen = listen,
	    .peer = peer,
	    .shares = !lend_level_rules_of(&ep->sealing.rules, listen ? listen : peer),
	    .eal = ep->config.eal,
	    .capture = ep->config.capture,
	    .capture_limit = ep->config.capture_limit,
	    .capture_snap = ep->config.capture_snap,
	    .describe = lend_ep_describe,
	    .user = (void *)(uintptr_t)ep};
}

/* Adds the carrier to those whose datagrams are sealed, by the rules for its own address: that of a
 * listener behind a broker names the broker's device. */
static int seal_carrier(struct lend_ep *ep, const struct lend_carrier *carrier, bool listens)
{
	char name[256];
	bool named = listens && carrier->io->ops->name(carrier->io, name, sizeof(name)) == 0;

	return lend_sealing_add(ep, ep->n_carriers, named && *name ? name : carrier->address,
				&carrier->io->path, &ep->core_config.path[ep->n_carriers]);
}

static int add_carrier(struct lend_ep *ep, const char *listen, const char *peer)
{
	struct lend_io_config config = config_of(ep, listen, peer);
	struct lend_carrier *carrier = &ep->carrier[ep->n_carriers];
	int rc;

	if (ep->n_carriers == LEND_CARRIERS_MAX)
		return lend_fail(ENOSPC,
				 "%s: an endpoint holds %d carriers at most: open another endpoint",
				 listen ? listen : peer, LEND_CARRIERS_MAX);
	carrier->address = strdup(listen ? listen : peer);
	if (!carrier->address)
		return lend_fail(ENOMEM, "no memory for an address");
	rc = lend_io_open(&config, &carrier->io);
	if (rc == 0) {
		rc = seal_carrier(ep, carrier, listen != NULL);
		if (rc == 0)
			rc = lend_ep_watch_fd(ep, carrier->io->ops->fd(carrier->io));
		if (rc < 0)
			carrier->io->ops->close(carrier->io);
	}
	if (rc < 0) {
		free(carrier->address);
		return rc;
	}
	carrier->listens = carrier->accepts = listen;
	if (carrier->io->ops->flush)
		ep->lenders |= (uint8_t)(1u << ep->n_carriers);
	ep->slow_poll |= !carrier->io->cheap_poll;
	if (carrier->io->path.mtu > ep->mtu_max)
		ep->mtu_max = carrier->io->path.mtu;
	register_memory(ep, carrier);
	ep->bufs->shares |= carrier->io->path.shares > 0;
	ep->n_carriers++;
	return 0;
}

int lend_ep_carrier(struct lend_ep *ep, const char *address, uint32_t *carrier)
{
	int rc;

	for (uint32_t c = 0; c < ep->n_carriers; c++)
		if (lend_io_same_carrier(ep->carrier[c].address, address)) {
			*carrier = c;
			return 0;
		}
	rc = add_carrier(ep, NULL, address);
	if (rc < 0)
		return rc;
	*carrier = ep->n_carriers - 1u;
	lend_core_path(ep->core, *carrier, &ep->core_config.path[*carrier]);
	return 0;
}

/* Listens on shm for sessions of the endpoint with itself. Not one of its addresses. */
static int listen_hidden(struct lend_ep *ep)
{
	static _Atomic(unsigned) number;
	char address[48];
	int rc;

	(void)snprintf(address, sizeof(address), "shm:http2-%d-%u", (int)getpid(), number++);
	rc = add_carrier(ep, address, NULL);
	if (rc == 0)
		ep->carrier[ep->n_carriers - 1].listens = false;
	return rc;
}

int lend_ep_listen(struct lend_ep *ep)
{
	bool http2 = false;
	char *list = strdup(ep->config.listen ? ep->config.listen : ""), *save = NULL;
	struct lend_io_config config = config_of(ep, NULL, NULL);
	int rc = list ? lend_capture_open(&config, &ep->capture)
		      : lend_fail(ENOMEM, "no memory for the listen addresses");

	for (char *at = list ? strtok_r(list, ", ", &save) : NULL; at && rc == 0;
	     at = strtok_r(NULL, ", ", &save)) {
		if (strncmp(at, LEND_HTTP2, strlen(LEND_HTTP2)) == 0)
			http2 = true;
		else
			rc = add_carrier(ep, at, NULL);
	}
	free(list);
	if (rc == 0 && http2 && !lend_ep_own_address(ep))
		rc = listen_hidden(ep);
	return rc;
}

const char *lend_ep_own_address(const struct lend_ep *ep)
{
	for (uint32_t c = 0; c < ep->n_carriers; c++)
		if (ep->carrier[c].accepts &&
		    ep->carrier[c].io->kind->traits & LEND_CARRIER_IN_PLACE)
			return ep->carrier[c].address;
	return NULL;
}

int lend_ep_listen_own(struct lend_ep *ep, const char **address)
{
	uint32_t c = ep->n_carriers;
	int rc;

	*address = lend_ep_own_address(ep);
	if (*address)
		return 0;
	rc = listen_hidden(ep);
	if (rc < 0)
		return rc;
	lend_core_path(ep->core, c, &ep->core_config.path[c]);
	*address = ep->carrier[c].address;
	return 0;
}

void lend_ep_close_carriers(struct lend_ep *ep)
{
	for (uint32_t c = 0; c < ep->n_carriers; c++) {
		ep->carrier[c].io->ops->close(ep->carrier[c].io);
		lend_regions_unref(ep->carrier[c].regions);
		free(ep->carrier[c].address);
	}
	if (ep->capture)
		lend_capture_file_close(ep->capture);
}

static int too_short(size_t cap)
{
	return lend_fail(ERANGE,
			 "%zu bytes are too few for this endpoint's addresses: give more, or "
			 "listen at fewer",
			 cap);
}

int lend_address(struct lend_ep *ep, char *text, size_t cap)
{
	size_t at = 0;

	if (!cap)
		return lend_fail(ERANGE, "no room for an address");
	text[0] = 0;
	for (uint32_t c = 0; c < ep->n_carriers; c++) {
		int rc;

		if (!ep->carrier[c].listens)
			continue;
		if (at && at + 1 < cap)
			text[at++] = ',';
		rc = ep->carrier[c].io->ops->name(ep->carrier[c].io, text + at, cap - at);
		if (rc == -ERANGE)
			return too_short(cap);
		if (rc < 0)
			return lend_fail(-rc, "%s: its port cannot be read: %s; try again",
					 ep->carrier[c].address, strerror(-rc));
		at += strlen(text + at);
	}
	for (uint32_t i = 0; i < ep->gateways.n; i++) {
		int n =
		    snprintf(text + at, cap - at, "%s%s", at ? "," : "", ep->gateways.address[i]);

		if ((size_t)n >= cap - at)
			return too_short(cap);
		at += (size_t)n;
	}
	return 0;
}
