// A move-only callable that keeps small captures inline, so that enqueueing work or saving a recipe
// allocates nothing. Captures larger than `InlineBytes` work too, at the price of one heap allocation.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ferry {

template <typename Signature, std::size_t InlineBytes = 64>
class unique_function;

/// A callable that can be moved and not copied.
template <typename Result, typename... Args, std::size_t InlineBytes>
class unique_function<Result(Args...), InlineBytes> {
 public:
  unique_function() noexcept = default;
  unique_function(std::nullptr_t) noexcept {}

  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, unique_function> &&
           std::is_invocable_r_v<Result, std::decay_t<F>&, Args...>) unique_function(F&& f) {
    using function_type = std::decay_t<F>;
    if constexpr (fits_inline<function_type>) {
      emplace<function_type>(std::forward<F>(f));
    } else {
      auto boxed = [box = std::make_unique<function_type>(std::forward<F>(f))](Args... args) -> Result {
        return (*box)(std::forward<Args>(args)...);
      };
      emplace<decltype(boxed)>(std::move(boxed));
    }
  }

  unique_function(unique_function&& other) noexcept { take(other); }
  unique_function& operator=(unique_function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  unique_function(unique_function const&) = delete;
  unique_function& operator=(unique_function const&) = delete;
  ~unique_function() { reset(); }

  explicit operator bool() const noexcept { return operations_ != nullptr; }

  Result operator()(Args... args) { return operations_->call(storage_, std::forward<Args>(args)...); }

  void reset() noexcept {
    if (operations_ != nullptr) {
      operations_->destroy(storage_);
      operations_ = nullptr;
    }
  }

 private:
  struct operations {
    Result (*call)(void*, Args&&...);
    void (*move_to)(void* from, void* to) noexcept;
    void (*destroy)(void*) noexcept;
  };

  template <typename F>
  static constexpr bool fits_inline =
      sizeof(F) <= InlineBytes && alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;

  template <typename F, typename... Init>
  void emplace(Init&&... init) {
    static constexpr operations table{
        [](void* self, Args&&... args) -> Result { return (*static_cast<F*>(self))(std::forward<Args>(args)...); },
        [](void* from, void* to) noexcept {
          ::new (to) F(std::move(*static_cast<F*>(from)));
          static_cast<F*>(from)->~F();
        },
        [](void* self) noexcept { static_cast<F*>(self)->~F(); }};
    ::new (static_cast<void*>(storage_)) F(std::forward<Init>(init)...);
    operations_ = &table;
  }

  void take(unique_function& other) noexcept {
    if (other.operations_ != nullptr) {
      other.operations_->move_to(other.storage_, storage_);
      operations_ = std::exchange(other.operations_, nullptr);
    }
  }

  operations const* operations_ = nullptr;
  alignas(std::max_align_t) std::byte storage_[InlineBytes];
};

}  // namespace ferry
