/* other_version - gRPC with a version that no test ran with: preloaded before gRPC itself.
 * Layer: test. Threads: any. */
__attribute__((visibility("default"))) const char *grpc_version_string(void);

const char *grpc_version_string(void)
{
	return "0.0.0";
}
