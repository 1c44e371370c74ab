/* keygen_command - writes a file with one new key, by which endpoints authenticate each other.
 * Layer: apps. Threads: one. */
#include <limits.h>
#include <stdio.h>

#include "apps/commands.h"
#include "lend/rpc.h"

static error_t parse(int key, char *arg, struct argp_state *state)
{
	return key == ARGP_KEY_ARG ? app_arg_word(state->input, arg) : ARGP_ERR_UNKNOWN;
}

int app_keygen(int argc, char **argv)
{
	static const char doc[] =
	    "Makes a file with one new key, readable by this user alone. Never overwrites a file. "
	    "Without FILE: $LEND_KEYS, else ~/.config/lend/keys, which every program reads.\v"
	    "Copy the file to the other hosts. To replace a key, append a new line at the servers, "
	    "then move it to the front at the clients, then remove the old one.\n\n"
	    "  lend keygen && scp ~/.config/lend/keys other:.config/lend/keys\n"
	    "  lend keygen shop.keys && lend-mn --listen udp:0.0.0.0:7000 --keys shop.keys";
	static const struct argp argp = {.parser = parse, .args_doc = "[FILE]", .doc = doc};
	const char *file = NULL;
	char made[PATH_MAX];

	app_parse(&argp, argc, argv, &file);
	if (lend_keygen(file, made, sizeof(made)) < 0)
		app_die("%s", lend_why());
	printf("%s: a new key; copy the file to the hosts that may connect\n", made);
	return APP_EXIT_OK;
}
