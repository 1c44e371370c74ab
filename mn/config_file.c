#include "mn/config_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LEND_CYAML
#include <cyaml/cyaml.h>

enum { OPTIONS_MAX = 64, VALUE_MAX = 4096 };

/* libcyaml reports an error in several lines: the first text, and the innermost line number. */
struct complaint {
	char text[256];
	unsigned line;
};

__attribute__((format(printf, 3, 0))) static void note_error(cyaml_log_t level, void *ctx,
							     const char *format, va_list args)
{
	struct complaint *c = ctx;
	char text[256];
	const char *at;

	if (level < CYAML_LOG_ERROR)
		return;
	(void)vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = 0;
	at = strstr(text, "line: ");
	if (at && !c->line)
		c->line = (unsigned)strtoul(at + 6, NULL, 10);
	if (!c->text[0] && !at)
		(void)snprintf(c->text, sizeof(c->text), "%s",
			       strncmp(text, "Load: ", 6) ? text : text + 6);
}

/* Every option is a field of the same kind: any scalar, as text. */
static uint32_t describe_options(const struct lend_option *options, const char *skip,
				 cyaml_schema_field_t fields[OPTIONS_MAX])
{
	uint32_t n = 0;

	for (; options[n].name && n + 1 < OPTIONS_MAX; n++) {
		cyaml_schema_field_t field = {
		    .key = strcmp(options[n].name, skip) ? options[n].name : "",
		    .data_offset = n * (uint32_t)sizeof(char *),
		    .value = {.type = CYAML_STRING,
			      .flags = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
			      .data_size = sizeof(char),
			      .string = {.min = 0, .max = VALUE_MAX}}};

		memcpy(&fields[n], &field, sizeof(field));
	}
	memset(&fields[n], 0, sizeof(fields[n]));
	return n;
}

/* Returns the line of a key. */
static unsigned line_of(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	char line[VALUE_MAX];
	unsigned n = 0;

	while (file && fgets(line, sizeof(line), file)) {
		const char *at = line + strspn(line, " \t\"'");
		size_t len = strlen(key);

		n++;
		if (!strncmp(at, key, len) && strspn(at + len, " \t\"':") > 0)
			break;
	}
	if (file)
		fclose(file);
	return n;
}

void mn_config_file(const char *path, const struct lend_option *options, const char *skip,
		    void (*apply)(uint32_t option, char *value, unsigned line, void *arg),
		    void *arg)
{
	cyaml_schema_field_t fields[OPTIONS_MAX];
	uint32_t n = describe_options(options, skip, fields);
	const cyaml_schema_value_t top = {.type = CYAML_MAPPING,
					  .flags = CYAML_FLAG_POINTER,
					  .data_size = n * (uint32_t)sizeof(char *),
					  .mapping = {.fields = fields}};
	struct complaint complaint = {.line = 0};
	const cyaml_config_t config = {.log_fn = note_error,
				       .log_ctx = &complaint,
				       .mem_fn = cyaml_mem,
				       .log_level = CYAML_LOG_ERROR};
	FILE *file = fopen(path, "re");
	static char **values; /* never freed */
	cyaml_err_t err;

	if (!file)
		lend_cli_bad("--config %s: %s", path, strerror(errno));
	fclose(file);
	err = cyaml_load_file(path, &config, &top, (cyaml_data_t **)&values, NULL);
	if (!strncmp(complaint.text, "Unexpected key: ", 16)) /* the line is its mapping's */
		complaint.line = line_of(path, complaint.text + 16);
	if (err != CYAML_OK || !values)
		lend_cli_bad("%s:%u: %s; one \"name: value\" per line, names as in lend-mn --help",
			     path, complaint.line,
			     complaint.text[0] ? complaint.text : cyaml_strerror(err));
	for (uint32_t i = 0; i < n; i++)
		if (values[i])
			apply(i, values[i], line_of(path, options[i].name), arg);
}
#else
void mn_config_file(const char *path, const struct lend_option *options, const char *skip,
		    void (*apply)(uint32_t option, char *value, unsigned line, void *arg),
		    void *arg)
{
	(void)options, (void)skip, (void)apply, (void)arg;
	lend_cli_bad("--config %s: not in this build; install libcyaml-dev and build again", path);
}
#endif
