"""What tests of pages in a real browser are made of."""
