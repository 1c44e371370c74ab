/* seed - see seed.h. */
#include "apps/social/seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/social/blob.h"
#include "apps/social/social.h"
#include "lend/alloc.h"
#include "util/bits.h"
#include "util/crc32c.h"
#include "util/rng.h"

enum { WINDOW = 128, MANY_MAX = 5, URL_LEN = 64, MEDIA_DIGITS = 18, TEXT_MORE = 1024 };

/* A post that is being composed. */
struct seed_post {
	struct social_blob_op put[2];
	unsigned waiting;
	Social__ComposeReq req;
	Social__User creator;
	Social__Blob text, body;
	Social__Blob *bodies[1];
	Social__MediaReq media;
	int64_t ids[MANY_MAX];
	char *types[MANY_MAX];
	char name[32];
	char *bytes, *body_bytes;
};

static struct {
	const struct seed_plan *plan;
	struct lend_rng rng;
	uint64_t started, ended;
	unsigned in_flight;
	enum social_role role; /* the calls in flight are to it */
} seeding;

static void end_call(const void *reply)
{
	enum lend_status status;
	const char *why;

	seeding.in_flight--;
	seeding.ended++;
	if (reply)
		return;
	why = social.transport->status(seeding.role, &status);
	app_die("the network cannot be filled: %s: %s", app_status_name(status), why);
}

static void end_empty(const Social__Empty *reply, void *arg)
{
	(void)arg;
	end_call(reply);
}

/* Returns the client of a role; it may have to be started first. */
static ProtobufCService *client_of(enum social_role role)
{
	ProtobufCService *client = social.transport->client(role, NULL);

	seeding.role = role;
	if (!client)
		app_die("%s is not reachable: %s", social_role_names[role], lend_why());
	return client;
}

/* Runs start(0) to start(n - 1), some in parallel. */
static void run_all(uint64_t n, void (*start)(uint64_t i))
{
	seeding.started = seeding.ended = 0;
	while (seeding.ended < n) {
		while (seeding.started < n && seeding.in_flight < WINDOW) {
			seeding.in_flight++;
			start(seeding.started++);
		}
		if (seeding.ended < n && lend_wait(social.ep, LEND_NEVER) < 0)
			app_die("%s", lend_why());
	}
}

static void start_user(uint64_t i)
{
	Social__Account account = SOCIAL__ACCOUNT__INIT;
	char text[4][32];

	(void)snprintf(text[0], sizeof(text[0]), "first_name_%u", (unsigned)i);
	(void)snprintf(text[1], sizeof(text[1]), "last_name_%u", (unsigned)i);
	(void)snprintf(text[2], sizeof(text[2]), "username_%u", (unsigned)i);
	(void)snprintf(text[3], sizeof(text[3]), "password_%u", (unsigned)i);
	account.first_name = text[0];
	account.last_name = text[1];
	account.username = text[2];
	account.password = text[3];
	account.user_id = (int64_t)i;
	social__user_service__register_user_with_id(client_of(SOCIAL_USER), &account, end_empty,
						    NULL);
}

/* Both ends of an edge follow each other. */
static void start_edge(uint64_t i)
{
	const uint32_t *ends = seeding.plan->graph->edge[i / 2];
	Social__Edge edge = SOCIAL__EDGE__INIT;

	edge.user_id = ends[i % 2];
	edge.followee_id = ends[!(i % 2)];
	social__social_graph_service__follow(client_of(SOCIAL_SOCIAL_GRAPH), &edge, end_empty,
					     NULL);
}

static void end_post(const Social__Empty *reply, void *arg)
{
	struct seed_post *p = arg;

	lend_free(p->bytes);
	lend_free(p->body_bytes);
	free(p);
	end_call(reply);
}

static void call_compose(struct seed_post *p)
{
	if (!--p->waiting)
		social__compose_post_service__compose_post(client_of(SOCIAL_COMPOSE_POST), &p->req,
							   end_post, p);
}

static void end_put(struct social_blob_op *op)
{
	if (op->op.status != LEND_OK)
		app_die("the memory node refuses a post: %s; it needs more memory",
			app_status_name(op->op.status));
	call_compose(op->arg);
}

static void set_blob(struct seed_post *p, unsigned i, Social__Blob *blob, char *bytes, size_t len)
{
	social_blob_set(blob, bytes, len);
	if (!social_by_ref(len))
		return;
	p->waiting++;
	p->put[i] = (struct social_blob_op){.blob = blob, .done = end_put, .arg = p};
	social_blob_put(social.mem, &p->put[i], bytes, len, LEND_TRANSFER);
}

static void add_letters(char *text, size_t *len, size_t n)
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	for (size_t i = 0; i < n; i++)
		text[(*len)++] = letters[lend_rng_below(&seeding.rng, sizeof(letters) - 1)];
}

/* Writes a text as the init script does: letters, mentions, URLs. Returns its length. */
static size_t write_text(char *text)
{
	size_t len = 0;

	add_letters(text, &len, seeding.plan->text);
	for (uint64_t n = lend_rng_below(&seeding.rng, MANY_MAX + 1); n; n--)
		len += (size_t)sprintf(
		    text + len, " @username_%u",
		    (unsigned)lend_rng_below(&seeding.rng, seeding.plan->graph->users));
	for (uint64_t n = lend_rng_below(&seeding.rng, MANY_MAX + 1); n; n--) {
		len += (size_t)sprintf(text + len, " http://");
		add_letters(text, &len, URL_LEN);
	}
	return len;
}

/* Fills a medium with bytes that no other has; the last four are the CRC32C of all before. */
static void write_media(char *bytes, size_t len)
{
	size_t body = len - sizeof(uint32_t);

	for (size_t i = 0; i + 8 <= body; i += 8)
		lend_store_u64(bytes + i, lend_rng_next(&seeding.rng));
	lend_store_u32(bytes + body, lend_crc32c(0, bytes, body));
}

static void add_media(struct seed_post *p)
{
	p->req.media = &p->media;
	p->media.media_ids = p->ids;
	p->media.media_types = p->types;
	for (uint64_t n = lend_rng_below(&seeding.rng, MANY_MAX + 1); n; n--) {
		p->ids[p->media.n_media_ids++] =
		    (int64_t)(UINT64_C(100000000000000000) +
			      lend_rng_below(&seeding.rng, UINT64_C(900000000000000000)));
		p->types[p->media.n_media_types++] = (char *)(uintptr_t) "png";
	}
}

/* The post contains one medium. */
static void add_body(struct seed_post *p)
{
	uint32_t len = seeding.plan->media;

	p->media.n_media_ids = p->media.n_media_types = p->media.n_bodies = 1;
	p->media.bodies = p->bodies;
	p->bodies[0] = &p->body;
	p->ids[0] = (int64_t)(1 + lend_rng_below(&seeding.rng, INT64_MAX - 1));
	p->types[0] = (char *)(uintptr_t) "jpg";
	p->body_bytes = lend_malloc_shared(len);
	if (!p->body_bytes)
		app_die("no memory for a medium");
	write_media(p->body_bytes, len);
	set_blob(p, 1, &p->body, p->body_bytes, len);
}

static void start_post_of(uint32_t user)
{
	struct seed_post *p = calloc(1, sizeof(*p));

	if (!p || !(p->bytes = lend_malloc_shared(seeding.plan->text + TEXT_MORE)))
		app_die("no memory for a post");
	social__compose_req__init(&p->req);
	social__user__init(&p->creator);
	social__media_req__init(&p->media);
	(void)snprintf(p->name, sizeof(p->name), "username_%u", user);
	p->waiting = 1;
	p->creator.user_id = user;
	p->creator.username = p->name;
	p->req.creator = &p->creator;
	p->req.text = &p->text;
	p->req.req_id = (int64_t)(lend_rng_next(&seeding.rng) >> 4);
	add_media(p);
	if (seeding.plan->media)
		add_body(p);
	set_blob(p, 0, &p->text, p->bytes, write_text(p->bytes));
	call_compose(p);
}

/* The user of each post, in a random order. */
static uint32_t *post_users;

static void start_post(uint64_t i)
{
	start_post_of(post_users[i]);
}

static uint64_t plan_posts(const struct seed_plan *plan)
{
	uint64_t n = 0;

	post_users =
	    malloc(((uint64_t)plan->graph->users * plan->posts_max + 1) * sizeof(*post_users));
	if (!post_users)
		app_die("no memory for a plan of posts");
	for (uint32_t user = 0; user < plan->graph->users; user++)
		for (uint64_t left =
			 plan->posts_min +
			 lend_rng_below(&seeding.rng, plan->posts_max - plan->posts_min + 1);
		     left; left--)
			post_users[n++] = user;
	for (uint64_t i = n; i > 1; i--) {
		uint64_t j = lend_rng_below(&seeding.rng, i);
		uint32_t user = post_users[i - 1];

		post_users[i - 1] = post_users[j];
		post_users[j] = user;
	}
	return n;
}

uint64_t seed_network(const struct seed_plan *plan)
{
	uint64_t posts;

	seeding.plan = plan;
	lend_rng_seed(&seeding.rng, plan->seed);
	run_all(plan->graph->users, start_user);
	run_all(2 * plan->graph->edges, start_edge);
	posts = plan_posts(plan);
	run_all(posts, start_post);
	free(post_users);
	return posts;
}
