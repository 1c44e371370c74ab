/* replicate: a log from one leader to its followers. An entry is encoded once; all followers read
 * the same memory, which is freed when the last one has it.
 *   replicate NAME &                 a follower, at shm:NAME
 *   replicate BYTES NAME...          the leader: appends 100 entries of BYTES to each follower */
#include <stdio.h>
#include <stdlib.h>

#include <lend/alloc.h>
#include <lend/grpc.h>

#include "replicate.pb-c.h"

enum { ENTRIES = 100, FOLLOWERS_MAX = 64, BYTES_MAX = 1 << 20 };

/* Takes the next entry, and answers with the number of the last one that it has. */
static void follower_append(Replicate__Follower_Service *service, const Replicate__Batch *in,
			    Replicate__Last_Closure closure, void *closure_data)
{
	static Replicate__Last last = REPLICATE__LAST__INIT; /* without a disk */

	(void)service;
	last.index += in->entry && in->entry->index == last.index + 1;
	closure(&last, closure_data);
}

/* The entry that is being replicated, encoded. */
static uint8_t *entry;
static uint64_t index;
static unsigned left, failed; /* followers */

static void end_append(const Replicate__Last *last, void *arg)
{
	(void)arg;
	failed += !last || last->index != index;
	if (!--left)
		lend_free(entry);
}

/* Encodes an entry. Returns its bytes, in memory that other processes read in place; 0: none. */
static size_t encode_entry(size_t len)
{
	static uint8_t data[BYTES_MAX];
	Replicate__Entry message = REPLICATE__ENTRY__INIT;

	message.index = ++index;
	message.data = (ProtobufCBinaryData){len < BYTES_MAX ? len : BYTES_MAX, data};
	entry = lend_malloc_shared(replicate__entry__get_packed_size(&message));
	return entry ? replicate__entry__pack(&message, entry) : 0;
}

static int lead_log(struct lend_ep *ep, size_t bytes, char **name, unsigned n)
{
	ProtobufCService *follower[FOLLOWERS_MAX];
	Replicate__Batch batch = REPLICATE__BATCH__INIT;
	struct lend_pb_bytes encoded;
	lend_session session;
	char address[64];
	size_t len;

	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(address, sizeof(address), "shm:%s", name[i]);
		if (lend_connect(ep, address, &session) < 0 ||
		    lend_pb_client(ep, session, &replicate__follower__descriptor, &follower[i]) < 0)
			return -1;
	}
	while (index < ENTRIES && (len = encode_entry(bytes))) {
		batch.entry = (Replicate__Entry *)lend_pb_encoded(&encoded, entry, len);
		left = n;
		for (unsigned i = 0; i < n; i++)
			replicate__follower__append(follower[i], &batch, end_append, NULL);
		while (left)
			(void)lend_wait(ep, LEND_NEVER);
	}
	for (unsigned i = 0; i < n; i++)
		protobuf_c_service_destroy(follower[i]);
	return printf("%u followers, %d entries, %u missing\n", n, ENTRIES, failed) < 0 || failed;
}

int main(int argc, char **argv)
{
	Replicate__Follower_Service service = REPLICATE__FOLLOWER__INIT(follower_);
	unsigned n = argc < 2 ? 0 : (unsigned)argc - 2;
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep = NULL;
	char address[64];
	int rc;

	(void)snprintf(address, sizeof(address), "shm:%s", n ? "" : argv[argc - 1]);
	config.listen = n ? NULL : address;
	rc = lend_open(&config, &ep);
	if (!rc && n)
		rc = lead_log(ep, strtoul(argv[1], NULL, 0), argv + 2, n < FOLLOWERS_MAX ? n : 0);
	else if (!rc && !(rc = lend_pb_serve(ep, &service.base)))
		rc = lend_run(ep, LEND_NEVER);
	if (rc < 0)
		fprintf(stderr, "replicate: %s\n", lend_why());
	lend_close(ep);
	lend_pb_end(ep);
	return rc != 0;
}
