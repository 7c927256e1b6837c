// Loads plugins in the order given, every symbol for all to see, and prints what each of them reports.
#include <dlfcn.h>

#include <array>
#include <cstdio>

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (dlopen(arguments[i], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      std::fprintf(stderr, "host: %s\n", dlerror());
      return 2;
    }
  }
  for (int i = 1; i < count; ++i) {
    void* const plugin = dlopen(arguments[i], RTLD_NOW | RTLD_NOLOAD);
    auto* const report = reinterpret_cast<int (*)(char*, std::size_t)>(dlsym(plugin, "plugin_report"));
    std::array<char, 512> text{};
    int const failed = report == nullptr ? 1 : report(text.data(), text.size());
    std::printf("%s%s\n", failed != 0 ? "FAILED: " : "", text.data());
  }
}
