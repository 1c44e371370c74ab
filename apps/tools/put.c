/* put - copies a file to a memory node and prints a reference, which others can read until its time
 * to live ends.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/memnode.h"
#include "apps/common/options.h"
#include "apps/common/report.h"

struct args {
	const char *file, *node;
	lend_ns ttl;
	bool bound, json;
};

enum { PART = 1 << 20 };

static const struct lend_option options[] = {
    OPT_WORD(struct args, file),
    OPT_WORD(struct args, node),
    OPT_ALIAS(struct args, node, "node"),
    OPT_TIME(struct args, ttl, "ttl", "How long it can be read: 10m (default), 30s, 2h"),
    OPT_FLAG(struct args, bound, "bound",
	     "Only sessions of this tenant may read it: see lend-mn(8)"),
    OPT_JSON(struct args, json),
    {.name = NULL}};

static int open_file(const char *path, uint64_t *len)
{
	struct stat stat;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &stat) < 0)
		app_die("%s: %s; give a file that can be read", path, strerror(errno));
	if (!S_ISREG(stat.st_mode))
		app_bad("%s: not a plain file; save it as one first", path);
	*len = (uint64_t)stat.st_size;
	return fd;
}

/* Reads len bytes at offset; app_die() when the file became shorter meanwhile. */
static void read_part(int fd, const char *path, char *into, size_t len, uint64_t offset)
{
	while (len) {
		ssize_t n = pread(fd, into, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			app_die("%s: %s; try again when nobody writes to it", path,
				n < 0 ? strerror(errno) : "it became shorter while it was read");
		into += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
}

/* Sends a short file in one call, a long one in parts, so that at most one part is in memory here.
 */
static void send_file(struct lend_mem *mem, const struct args *args, int fd, uint64_t len,
		      struct lend_ref *ref)
{
	const struct lend_terms terms = {
	    .size = sizeof(terms), .hold = LEND_SHARED, .bound = args->bound, .ttl = args->ttl};
	struct iovec data = {.iov_base = malloc(PART)};
	struct lend_op op = {.done = NULL};
	lend_ns began = app_now();
	lend_space space;

	if (!data.iov_base)
		app_die("no memory for a part of 1 MiB; end some processes");
	if (len <= PART) {
		data.iov_len = len;
		read_part(fd, args->file, data.iov_base, len, 0);
		app_node_wait(mem, &op, lend_put(mem, &data, 1, &terms, &op), args->file);
		*ref = op.ref;
		free(data.iov_base);
		return;
	}
	app_node_wait(mem, &op, lend_space_alloc(mem, len, &space, &op), args->file);
	for (uint64_t at = 0; at < len; at += data.iov_len) {
		data.iov_len = len - at < PART ? len - at : PART;
		read_part(fd, args->file, data.iov_base, data.iov_len, at);
		op = (struct lend_op){.done = NULL};
		app_node_wait(mem, &op, lend_space_write(mem, space, at, &data, 1, &op),
			      args->file);
		app_progress(began, (double)at, (double)len);
	}
	op = (struct lend_op){.done = NULL};
	app_node_wait(mem, &op, lend_space_seal(mem, space, 0, len, &terms, &op), args->file);
	*ref = op.ref;
	op = (struct lend_op){.done = NULL};
	app_node_wait(mem, &op, lend_space_free(mem, space, &op), args->file);
	free(data.iov_base);
}

static void write_report(const struct args *args, const char *text, uint64_t len)
{
	struct app_report report;

	app_progress_clear();
	if (!args->json) {
		if (puts(text) < 0 || fflush(stdout))
			app_die("cannot write the reference: %s; fix the output", strerror(errno));
		return;
	}
	app_report_begin(&report, true, "");
	app_report_text(&report, "ref", text, "");
	app_report_int(&report, "bytes", len, "");
	app_report_end(&report);
}

int app_put(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options,
	    .words = "FILE NODE",
	    .doc = "Copies a file to a memory node and prints its reference.\v"
		   "NODE is the address that lend-mn printed. Everyone with the reference can read "
		   "the bytes until --ttl runs out: keep it as you would keep the file.\n\n"
		   "  ref=$(lend put photo.jpg shm:mn0 --ttl 10m); lend get $ref -o copy.jpg\n"
		   "  lend put photo.jpg udp:10.0.0.2:7000 --bound --keys shop.keys"};
	struct args args = {.ttl = UINT64_C(600000000000)};
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ref ref;
	struct lend_mem *mem;
	struct lend_ep *ep;
	char text[512];
	uint64_t len;
	int fd;

	app_options_read(&syntax, argc, argv, &args);
	if (!args.file || !args.node)
		app_bad("give a file and a memory node: lend put FILE shm:mn0");
	fd = open_file(args.file, &len);
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	mem = app_node_open(ep, args.node);
	send_file(mem, &args, fd, len, &ref);
	if (lend_ref_text(mem, &ref, text, sizeof(text)) < 0)
		app_die("%s", lend_why());
	lend_mem_close(mem);
	lend_close(ep);
	close(fd);
	write_report(&args, text, len);
	return APP_EXIT_OK;
}
