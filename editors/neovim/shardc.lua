-- Findings and help for shardc's rules, mesh and project files, in Neovim 0.7
-- and later. Put this file into a `lua` folder of the configuration and write
--
--   require("shardc").setup()
--
-- Options: `cmd`, the program and its arguments; `on_attach`, as of any client;
-- `inlay_hints = false` hides the counts at the end of patterns (Neovim 0.10 and
-- later show them).
local M = {}

local function root_of(name)
  local found = vim.fn.findfile("shardc.yaml", vim.fn.fnamemodify(name, ":p:h") .. ";")
  if found ~= "" then
    return vim.fn.fnamemodify(found, ":p:h")
  end
  return vim.fn.fnamemodify(name, ":p:h")
end

local clients = {} -- by root, for versions without vim.lsp.start

function M.attach(buffer, options)
  local config = {
    name = "shardc",
    cmd = options.cmd or { "shardc", "lsp", "--stdio" },
    root_dir = root_of(vim.api.nvim_buf_get_name(buffer)),
    -- The server takes changes as they come and checks the last of them. Neovim
    -- would otherwise send at most one in 150 ms.
    flags = { debounce_text_changes = 0 },
    on_attach = function(client, attached)
      if vim.lsp.inlay_hint and options.inlay_hints ~= false then
        vim.lsp.inlay_hint.enable(true, { bufnr = attached })
      end
      if options.on_attach then
        options.on_attach(client, attached)
      end
    end,
  }
  if vim.lsp.start then
    return vim.lsp.start(config, { bufnr = buffer })
  end
  local id = clients[config.root_dir]
  if not id or not vim.lsp.get_client_by_id(id) then
    id = vim.lsp.start_client(config)
    clients[config.root_dir] = id
  end
  if id then
    vim.lsp.buf_attach_client(buffer, id)
  end
  return id
end

function M.setup(options)
  options = options or {}
  vim.api.nvim_create_autocmd("FileType", {
    pattern = "yaml",
    callback = function(event)
      M.attach(event.buf, options)
    end,
  })
end

return M
