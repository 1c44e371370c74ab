/* peer_args - see peer_args.h. */
#include "apps/peers/peer_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"

enum {
	KEY_REQUEST = 0x7301,
	KEY_REPLY,
	KEY_SECONDS,
	KEY_ENDS,
	KEY_UNTUNED,
	KEY_REWRITE,
	KEY_JSON,
	KEY_LANES
};

static const struct argp_option options[] = {
    {"lane", 'l', "NAME", 0, "What it goes over (--lanes lists them); the first unless given", 0},
    {"lanes", KEY_LANES, NULL, 0, "Print the lanes: name, longest request, most in flight; 0: any",
     0},
    {"request", KEY_REQUEST, "BYTES", 0, "Bytes of each request (64)", 0},
    {"reply", KEY_REPLY, "BYTES", 0, "Bytes of each answer: as many as the request, or 8", 0},
    {"window", 'w', "N", 0, "Requests in flight (1)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "How long (1)", 0},
    {"ends", KEY_ENDS, NULL, 0, "The server reads the first and last 4 KiB, not every byte", 0},
    {"rewrite", KEY_REWRITE, NULL, 0, "The client writes the bytes of each request again", 0},
    {"untuned", KEY_UNTUNED, NULL, 0, "The library as it comes", 0},
    {"json", KEY_JSON, NULL, 0, "One JSON object", 0},
    {0}};

static void print_lanes(void)
{
	for (const struct peer_lane *lane = peer_this.lane; lane->name; lane++)
		printf("%s %llu %u\n", lane->name, (unsigned long long)lane->len_max,
		       lane->window_max);
	exit(APP_EXIT_OK);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct peer_args *args = state->input;
	struct peer_job *job = &args->job;

	switch (key) {
	case 'l':
		job->lane = arg;
		return 0;
	case KEY_LANES:
		print_lanes();
		return 0;
	case KEY_REQUEST:
		job->request = app_arg_size("--request", arg, 8, APP_PATTERN_MAX);
		return 0;
	case KEY_REPLY:
		job->reply = app_arg_size("--reply", arg, 8, APP_PATTERN_MAX);
		return 0;
	case 'w':
		job->window = (unsigned)app_arg_u64("--window", arg, 1, PEER_WINDOW_MAX);
		return 0;
	case KEY_SECONDS:
		args->time = app_arg_ns("--seconds", arg);
		return 0;
	case KEY_ENDS:
		return app_arg_flag(&job->ends);
	case KEY_REWRITE:
		return app_arg_flag(&job->rewrite);
	case KEY_UNTUNED:
		return app_arg_flag(&job->untuned);
	case KEY_JSON:
		return app_arg_flag(&args->json);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void choose_lane(struct peer_args *args)
{
	struct peer_job *job = &args->job;
	const struct peer_lane *lane = peer_this.lane;

	job->reply = job->reply ? job->reply : job->request;
	if (!peer_is_echo(job) && job->reply != PEER_SUM_LEN)
		app_bad("--reply %llu: give 8, or as many as the request has",
			(unsigned long long)job->reply);
	while (lane->name && job->lane && strcmp(lane->name, job->lane))
		lane++;
	if (!lane->name)
		app_bad("--lane %s: no such lane; --lanes lists them", job->lane);
	args->lane = lane;
	job->lane = lane->name;
	if (lane->len_max && job->request > lane->len_max)
		app_bad("%s: takes requests of up to %llu bytes", job->lane,
			(unsigned long long)lane->len_max);
	if (lane->window_max && job->window > lane->window_max)
		app_bad("%s: takes up to %u in flight", job->lane, lane->window_max);
}

void peer_args_read(struct peer_args *args, int argc, char **argv)
{
	static const struct argp argp = {
	    .options = options,
	    .parser = parse_option,
	    .doc = "Requests to a server on another core, timed and checked; see "
		   "scripts/compare.sh.\v"
		   "examples:\n  --request 64\n  --lane tcp --request 32 --reply 8 --window 64 "
		   "--json\n  --request 8M --reply 8 --window 2 --ends"};

	*args = (struct peer_args){.job = {.request = 64, .window = 1}, .time = 1000000000};
	app_parse(&argp, argc, argv, args);
	choose_lane(args);
}
