/* keygen_command - writes a file with one new key, by which endpoints authenticate each other.
 * Layer: apps. Threads: one. */
#include <limits.h>
#include <stdio.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "lend/rpc.h"

struct args {
	const char *file;
	bool is_static;
};

/* Prints a key pair: the line of the server's file to its output, the public key as a remark. */
static int print_pair(void)
{
	char line[80], public_key[65];

	if (lend_keygen_static(line, public_key) < 0)
		app_die("%s", lend_why());
	printf("# at clients: server ADDRESS %s\n%s", public_key, line);
	return APP_EXIT_OK;
}

int app_keygen(int argc, char **argv)
{
	static const char doc[] =
	    "Makes a file with one new key, readable by this user alone. Never overwrites a file. "
	    "Without FILE: $LEND_KEYS, else ~/.config/lend/keys, which every program reads.\v"
	    "Copy the file to the other hosts. To replace a key, append a new line at the servers, "
	    "then move it to the front at the clients, then remove the old one.\n\n"
	    "  lend keygen && scp ~/.config/lend/keys other:.config/lend/keys\n"
	    "  lend keygen --static >> shop.keys\n"
	    "  lend keygen shop.keys && lend-mn --listen udp:0.0.0.0:7000 --keys shop.keys";
	static const struct lend_option options[] = {
	    OPT_FLAG(struct args, is_static, "static",
		     "Print a key pair of a server, which clients then know by its public key"),
	    OPT_WORD(struct args, file),
	    {.name = NULL}};
	static const struct lend_syntax syntax = {.option = options, .words = "[FILE]", .doc = doc};
	struct args args = {.file = NULL};
	char made[PATH_MAX];

	app_options_read(&syntax, argc, argv, &args);
	if (args.is_static)
		return print_pair();
	if (lend_keygen(args.file, made, sizeof(made)) < 0)
		app_die("%s", lend_why());
	printf("%s: a new key; copy the file to the hosts that may connect\n", made);
	return APP_EXIT_OK;
}
