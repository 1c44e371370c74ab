/* captured - see captured.h. */
#include "io/captured.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/last_error.h"
#include "teardown.h"

static char folder[64];

void captured_begin(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/lend-capture-%d-XXXXXX", getpid());
	cr_assert_not_null(mkdtemp(folder));
}

void captured_end(void)
{
	teardown_remove(folder);
}

/* The suite must see no difference through a capture. */
static const char *with_capture(void)
{
	setenv("LEND_CAPTURE", "/dev/null", 1);
	return NULL;
}

const struct conform_row captured_shm = {.name = "shm, captured",
					 .absent = with_capture,
					 .address = conform_shm_address,
					 .rebinds = true,
					 .threads = true,
					 .clients = 40};
const struct conform_row captured_udp = {.name = "udp, captured",
					 .absent = with_capture,
					 .address = conform_udp_address,
					 .rebinds = true,
					 .threads = true,
					 .clients = 40,
					 .both = true};
void captured_path(const char *name, char path[160])
{
	if (name[0] == '/')
		(void)snprintf(path, 160, "%s", name);
	else
		(void)snprintf(path, 160, "%s/%s", folder, name);
}

struct lend_io *captured_open(const char *listen, const char *peer, const char *name, uint32_t snap,
			      uint64_t limit)
{
	char path[160];
	struct lend_io_config config = {.listen = listen,
					.peer = peer,
					.capture = path,
					.capture_snap = snap,
					.capture_limit = limit};
	struct lend_io *io;

	captured_path(name, path);
	cr_assert_eq(lend_io_open(&config, &io), 0, "%s", lend_why_text());
	return io;
}

struct blocks *captured_read(const char *name)
{
	char path[160];

	captured_path(name, path);
	return blocks_read(path);
}

struct captured captured_ends(const struct conform_row *row, const char *name, uint32_t snap,
			      uint64_t limit)
{
	struct captured e;
	char listen[104];

	row->address(listen, sizeof(listen));
	e.server = captured_open(listen, NULL, name, snap, limit);
	cr_assert_eq(e.server->ops->name(e.server, e.address, sizeof(e.address)), 0);
	e.client = captured_open(NULL, e.address, name, snap, limit);
	e.peer = conform_resolve(e.client, e.address, e.server);
	return e;
}

void captured_close(struct captured *e)
{
	e->client->ops->close(e->client);
	e->server->ops->close(e->server);
}

/* Sends and receives one at a time, so that no datagram is lost. */
void captured_exchange(struct captured *e, uint32_t seq, uint32_t len)
{
	uint64_t end = conform_ms() + 5000;
	uint32_t got = 0;

	cr_assert_eq(conform_send(e->client, e->peer, 7, seq, len), LEND_SENT);
	while (got == 0 && conform_ms() < end)
		got = conform_take(e->server, NULL, NULL);
	cr_assert_eq(got, 1);
}
