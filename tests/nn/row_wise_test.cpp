// The transformer's recipes that rebuild some rows: each row has the bits that it has when all are made, and no other
// row is touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "ferry/nn/items.hpp"
#include "nn/ops_fixture.hpp"
#include "nn/row_wise.hpp"

namespace ferry::nn::testing {
namespace {

class RowWise : public OpsTest {
 protected:
  using operation = std::function<void(recipe_context const&)>;

  /// Makes all `rows` of `columns`, then every range of some: whole, single rows, both ends, and what lies between.
  void expect_any_range(int rows, int columns, tensor<float> const* input, operation const& make) {
    std::size_t const floats = static_cast<std::size_t>(rows) * columns;
    std::array<void const*, 1> const inputs{input != nullptr ? input->data() : nullptr};
    auto const context = [&](tensor<float> const& to, int first, int count) {
      return recipe_context{world.stream(),
                            to.data(),
                            floats * sizeof(float),
                            {inputs.data(), input != nullptr ? 1U : 0U},
                            static_cast<std::size_t>(first),
                            static_cast<std::size_t>(count)};
    };
    auto const all = world.poisoned(floats);
    make(context(all, 0, rows));
    auto const expected = world.download(all);
    auto const range = [&](int first, int count) {
      SCOPED_TRACE(::testing::Message() << "rows " << first << " to " << first + count << " of " << rows);
      std::vector<float> const before(floats, 42.0F);
      auto const some = world.upload(before);
      make(context(some, first, count));
      auto const made = world.download(some);
      auto wanted = before;
      std::copy_n(expected.begin() + first * columns, count * columns, wanted.begin() + first * columns);
      EXPECT_EQ(std::memcmp(made.data(), wanted.data(), floats * sizeof(float)), 0);
    };
    range(0, rows);
    for (int const first : {0, 1, rows / 2, rows - 1}) {
      if (first >= rows) continue;
      range(first, 1);
      range(first, rows - first);
      range(0, first + 1);
      range(first, (rows - first + 1) / 2);
    }
  }
};

TEST_F(RowWise, LayerNorm) {
  for (auto const& [rows, C] : row_shapes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << C);
    auto const x = world.upload(random(rows * C)), weight = world.upload(random(C)), bias = world.upload(random(C));
    expect_any_range(rows, C, &x,
                     [&, C = C](recipe_context const& c) { layernorm_rows(*world.operator->(), c, weight, bias, C); });
  }
}

TEST_F(RowWise, Gelu) {
  for (auto const& [rows, columns] : row_shapes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << columns);
    auto const x = world.upload(random(rows * columns, 4));
    expect_any_range(rows, columns, &x,
                     [&, columns = columns](recipe_context const& c) { gelu_rows(*world.operator->(), c, columns); });
  }
}

TEST_F(RowWise, Embedding) {
  struct shape {
    int B, T, C, V;
  };
  for (auto const& [B, T, C, V] : {shape{1, 1, 1, 1}, shape{2, 7, 33, 3}, shape{3, 40, 100, 11}, shape{5, 1, 16, 9}}) {
    SCOPED_TRACE(::testing::Message() << B << " x " << T << " x " << C << " of " << V);
    auto const tokens = world.upload(random.below(V, B * T));
    auto const wte = world.upload(random(V * C)), wpe = world.upload(random(T * C));
    expect_any_range(B * T, C, nullptr, [&, T = T, C = C, V = V](recipe_context const& c) {
      embedding_rows(*world.operator->(), c, tokens, wte, wpe, T, C, V);
    });
  }
}

/// Half the rows are half a run.
TEST(RecomputeWork, OfSomeRows) {
  recompute_counts counts;
  gpt_shape const shape{.layers = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 10};
  auto const items = describe_items(shape, 1);
  *counts.counter(item::ln1, 0) += 0.5;
  EXPECT_DOUBLE_EQ(work_of(counts, items).flops, items[1].flops / 2);
  EXPECT_DOUBLE_EQ(work_of(counts, items).bytes, items[1].bytes / 2);
}

}  // namespace
}  // namespace ferry::nn::testing
