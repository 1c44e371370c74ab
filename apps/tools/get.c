/* get - writes the bytes behind a reference to a file, which appears complete or not at all.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
	const char *ref, *ref_file, *out;
};

enum { PART = 1 << 20, TEMP_MAX = 4096, REF_MAX = 512 };

static const struct lend_option options[] = {
    OPT_WORD(struct args, ref),
    OPT_TEXT(struct args, out, "output", "FILE", "Where to write; without it to standard output",
	     .key = 'o'),
    OPT_TEXT(struct args, ref_file, "ref-file", "FILE", "Read the reference from FILE instead"),
    {.name = NULL}};

/* Returns the reference in the first line of a file, without the blanks around it. */
static const char *read_ref(FILE *file, const char *where)
{
	static const char blanks[] = " \t\r\n";
	static char text[REF_MAX];
	bool got = file && fgets(text, sizeof(text), file);
	char *ref = text + strspn(text, blanks);

	if (!file || ferror(file))
		app_die("%s: %s; name a file that can be read", where, strerror(errno));
	if (!got || !*ref)
		app_bad("%s: empty; the reference that lend put printed belongs there", where);
	if (strlen(text) + 1 == sizeof(text))
		app_bad("%s: its first line is too long for a reference", where);
	ref[strcspn(ref, blanks)] = '\0';
	return ref;
}

static void find_ref(struct args *args)
{
	FILE *file;

	if (!args->ref && !args->ref_file)
		app_bad("which reference? give the text that lend put printed, - or --ref-file "
			"FILE");
	if (args->ref && args->ref_file)
		app_bad("two references; give REF, - or --ref-file FILE, and only one");
	if (args->ref_file) {
		file = fopen(args->ref_file, "re");
		args->ref = read_ref(file, args->ref_file);
		fclose(file);
	} else if (!strcmp(args->ref, "-")) {
		args->ref = read_ref(stdin, "standard input");
	}
}

/* The file's temporary name while it is written; removed at exit unless the file was finished. */
static char temp[TEMP_MAX];

static void remove_temp(void)
{
	if (temp[0])
		unlink(temp);
}

/* A device or a pipe is opened itself: it must not be replaced by a file. */
static int open_output(const char *out)
{
	mode_t mask = umask(0);
	struct stat st;
	int fd;

	umask(mask);
	if (stat(out, &st) == 0 && !S_ISREG(st.st_mode)) {
		fd = open(out, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			app_die("%s: %s; choose another name", out, strerror(errno));
		return fd;
	}
	if (snprintf(temp, sizeof(temp), "%s.XXXXXX", out) >= (int)sizeof(temp))
		app_bad("%s: the name is too long; choose a shorter one", out);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0) {
		temp[0] = 0;
		app_die("%s: %s; choose a folder that can be written", out, strerror(errno));
	}
	atexit(remove_temp);
	fchmod(fd, 0666 & ~mask);
	return fd;
}

static void write_all(int fd, const char *bytes, size_t len, const char *where)
{
	while (len) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			app_die("%s: %s; nothing was kept", where, strerror(errno));
		bytes += n;
		len -= (size_t)n;
	}
}

static void fetch_object(struct lend_mem *mem, const struct lend_ref *ref, int fd,
			 const char *where)
{
	uint64_t len = lend_ref_len(ref);
	struct iovec into = {.iov_base = malloc(PART)};
	lend_ns began = app_now();

	if (!into.iov_base)
		app_die("no memory for a part of 1 MiB; end some processes");
	for (uint64_t at = 0; at < len; at += into.iov_len) {
		struct lend_op op = {.done = NULL};

		into.iov_len = len - at < PART ? len - at : PART;
		app_node_wait(mem, &op, lend_get(mem, ref, at, &into, 1, &op), "the reference");
		write_all(fd, into.iov_base, into.iov_len, where);
		app_progress(began, (double)at, (double)len);
	}
	app_progress_clear();
	free(into.iov_base);
}

static void finish_file(int fd, const char *out)
{
	if (close(fd) < 0 || (temp[0] && rename(temp, out) < 0))
		app_die("%s: %s; choose another name", out, strerror(errno));
	temp[0] = 0;
}

int app_get(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options,
	    .words = "[REF|-]",
	    .doc = "Writes the bytes behind a reference.\vWith -o the "
		   "file appears only when it is complete. A reference "
		   "is a key to its bytes, and every user of this host "
		   "sees the command line: - reads it from the first "
		   "line of standard input, --ref-file from that of a "
		   "file.\n\n"
		   "  lend get lend1:...@shm:mn0 -o copy.jpg\n"
		   "  lend get - -o copy.jpg < photo.ref\n"
		   "  lend get --ref-file photo.ref -o copy.jpg"};
	struct args args = {.ref = NULL};
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ref ref;
	struct lend_mem *mem;
	struct lend_ep *ep;
	const char *at;
	int fd = STDOUT_FILENO;

	app_options_read(&syntax, argc, argv, &args);
	find_ref(&args);
	at = strchr(args.ref, '@');
	if (strncmp(args.ref, "lend1:", 6) || !at || !at[1])
		app_bad("%s: not a reference; copy the whole line that lend put printed "
			"(lend1:...@ADDR)",
			args.ref);
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	mem = app_node_open(ep, at + 1);
	if (lend_ref_parse(mem, args.ref, &ref) < 0)
		app_bad("%s: %s", args.ref, lend_why());
	if (args.out)
		fd = open_output(args.out);
	fetch_object(mem, &ref, fd, args.out ? args.out : "standard output");
	if (args.out)
		finish_file(fd, args.out);
	lend_mem_close(mem);
	lend_close(ep);
	return APP_EXIT_OK;
}
