# Oracle values for the scaling law, by R's nls.
#
#   Rscript scripts/oracles/scaling.R > crates/results/stats/src/oracles/scaling.tsv
#
# The data of specsdm91 and raytracer are those published with the law (N. Gunther,
# Guerrilla Capacity Planning; the R package usl); their published coefficients
# stand in the tests. Here nls fits them once more, with the 95 % intervals of
# coefficients by t, and the standard error of predictions by the delta method.
cat("# R", as.character(getRversion()), "nls; written by scripts/oracles/scaling.R\n")
num <- function(v) paste(formatC(v, digits = 12, format = "g", width = 1), collapse = " ")
fit <- function(name, n, x, start, at) {
  m <- nls(x ~ l * n / (1 + s * (n - 1) + k * n * (n - 1)), start = start,
           algorithm = "port", control = nls.control(tol = 1e-12, maxiter = 500))
  p <- coef(m); v <- vcov(m); t <- qt(0.975, length(n) - 3)
  se <- sqrt(diag(v))
  d <- 1 + p["s"] * (at - 1) + p["k"] * at * (at - 1)
  f <- p["l"] * at / d
  g <- rbind(at / d, -p["l"] * at * (at - 1) / d^2, -p["l"] * at * at * (at - 1) / d^2)
  cat(name, paste(n, collapse = " "), paste(x, collapse = " "), num(p), num(se), num(p - t * se), num(p + t * se),
      num(sqrt((1 - p["s"]) / p["k"])), paste(at, collapse = " "), num(f), num(sqrt(colSums(g * (v %*% g)))), "\n", sep = "\t")
}
fit("specsdm91", c(1, 18, 36, 72, 108, 144, 216), c(64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2),
    list(l = 90, s = 0.0277, k = 1e-4), c(1, 50, 96, 300, 432))
fit("raytracer", c(1, 4, 8, 12, 16, 20), c(20, 78, 130, 170, 190, 200),
    list(l = 20, s = 0.02, k = 1e-3), c(2, 10, 40))
set.seed(20261121)
n <- c(1, 2, 4, 8, 16, 32, 64)
x <- round(30000 * n / (1 + 0.03 * (n - 1) + 0.0004 * n * (n - 1)) * exp(rnorm(length(n), 0, 0.01)), 1)
fit("made-up", n, x, list(l = 30000, s = 0.02, k = 1e-4), c(3, 64, 128))
