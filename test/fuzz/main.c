/* main - replays inputs without libFuzzer, so that every build runs the corpus.
 * usage: fuzz_NOUN FILE_OR_FOLDER...
 * Layer: test. The last line of stderr names an input that crashes. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/finding.h"

enum { INPUT_MAX = 1 << 16 };
static char path[4096];

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void name_input(void)
{
	fprintf(stderr, "input %s\n", path);
}

static void on_abort(int number)
{
	(void)number;
	name_input();
}

/* Runs each input in memory of exactly its size. False: not a file. */
static int run_file(void)
{
	static uint8_t bytes[INPUT_MAX];
	FILE *file = fopen(path, "rb");
	uint8_t *exact;
	size_t n;

	if (!file)
		return 0;
	n = fread(bytes, 1, sizeof(bytes), file);
	(void)fclose(file);
	exact = malloc(n ? n : 1);
	memcpy(exact, bytes, n);
	(void)LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	return 1;
}

static int run_folder(const char *name)
{
	struct dirent **entry;
	int n = scandir(name, &entry, NULL, alphasort), run = 0;

	for (int i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", name, entry[i]->d_name);
		run += entry[i]->d_name[0] != '.' && run_file();
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
	return n < 0 ? -1 : run;
}

int main(int argc, char **argv)
{
	int run = 0;

	(void)signal(SIGABRT, on_abort);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(name_input);
	for (int i = 1; i < argc; i++) {
		int n = run_folder(argv[i]);

		if (n < 0) {
			(void)snprintf(path, sizeof(path), "%s", argv[i]);
			n = run_file();
		}
		run += n;
	}
	if (run == 0)
		fprintf(stderr, "usage: %s FILE_OR_FOLDER...: no input there\n", argv[0]);
	return run == 0;
}
